package effective

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// threads is the default size of a thread pool for each media: see docs/adr/0019. Each worker has its own pool. The 16
// threads that the article (docs/concepts/thread-pools.md) uses keep a hard disk busy. But 64 threads served 1.6 times
// as many random objects of 1 MiB as 16 threads.
var threads = map[v1alpha1.Media]int32{v1alpha1.HDD: 64, v1alpha1.SSD: 32, v1alpha1.NVMe: 64}

const (
	// mostThreads is the maximum number of threads in all pools of a pod together, if the spec does not set the number.
	// The kubelet limits the processes of a pod, and threads count as processes. manyWorkers is the number of workers
	// that Threads assumes if the number is not known.
	mostThreads = 1024
	manyWorkers = 16
	// articleThreads is the number of threads that each disk may have for each core, even if this exceeds mostThreads.
	articleThreads = 16
	// mostWorkers is the maximum number of workers in io.mode Workers. nginx can have 1,024 processes, and a reload
	// needs old and new workers at the same time.
	mostWorkers = 256
)

// Threads returns the size of a disk's thread pool in each worker. It is the size in the spec or, by default, the
// size for the disk's media. The default is smaller if the pools of all disks and workers would otherwise exceed
// mostThreads. cores is 0 if it is not known. In io.mode Workers, a core's threads are divided among its workers.
func Threads(d v1alpha1.Disk, io v1alpha1.IO, disks int, cores int32) int32 {
	ofCore := ptr.Deref(d.ThreadPool.Threads, 0)
	if ofCore == 0 {
		share := int32(mostThreads/max(disks, 1)) / max(cmp.Or(cores, manyWorkers), 1) //nolint:gosec // at most mostThreads
		ofCore = min(threads[d.Media], max(share, articleThreads))
	}
	return max(ofCore/perCore(io), 1)
}

// ProbeTimeout returns the longest time that a probe of a disk may take.
func ProbeTimeout(d v1alpha1.Disk) time.Duration {
	if d.Health.Timeout != "" {
		return Duration(d.Health.Timeout)
	}
	if d.Media == v1alpha1.HDD {
		return 2 * time.Second
	}
	return time.Second
}

// BusyRate returns the least number of reads or writes a second that a busy disk completes. A busy disk with a lower
// rate counts as a disk that hangs. A hard disk completes about a hundred random reads or writes a second. The
// slowest disks of other kinds, small cloud volumes, also complete about a hundred.
func BusyRate(d v1alpha1.Disk) int {
	if d.Media == v1alpha1.HDD {
		return 20
	}
	return 50
}

// ShardDisks returns the disks as members of a plan. The weight of a member is the weight of the disk or, if no disk
// has a weight, its size. Leaving disks are not members, because they own no keys.
func ShardDisks(disks []v1alpha1.Disk) []shard.Member {
	var sharded []shard.Member
	for _, d := range disks {
		member := shard.Member{Name: d.Name, Weight: wholeMebibytes(d.Size.Value()) / mebibyte}
		if d.Weight != nil {
			member.Weight = int64(*d.Weight)
		}
		if !Leaves(d) {
			sharded = append(sharded, member)
		}
	}
	return sharded
}

// Leaves returns true for a leaving disk: the spec no longer contains it, but it stays in the pods until the
// hand-over of its keys ends. Its weight is 0, which no spec can contain.
func Leaves(d v1alpha1.Disk) bool { return d.Weight != nil && *d.Weight == 0 }

// Cores returns a CPU limit as a number of cores, rounded up; 0 if there is no limit.
func Cores(limit *resource.Quantity) int32 {
	if limit == nil || limit.Sign() <= 0 {
		return 0
	}
	return int32(min(limit.Value(), 1024)) //nolint:gosec // bounded
}

// workersPerCPU is the default of io.workersPerCPU: see docs/adr/0027. The pods depend on it (manifest.PodInput), so
// another value would replace the pods of every CacheNode with io.mode Workers.
const workersPerCPU = 4

// perCore returns the number of workers for each core.
func perCore(io v1alpha1.IO) int32 {
	if io.Mode == v1alpha1.IOWorkers {
		return ptr.Deref(io.WorkersPerCPU, workersPerCPU)
	}
	return 1
}

// Workers returns the number of nginx's workers in a pod with a number of cores. It is 0 if cores is 0, which means
// that the number of cores is not known: nginx then uses "auto". The number of workers does not depend on the state
// of disks. If a reload changed the number, the kernel would still give connections to the listening sockets of old
// workers, which may wait for a disk.
func Workers(io v1alpha1.IO, cores int32) int32 {
	return max(min(perCore(io)*cores, mostWorkers), cores)
}

// Connections returns the value of worker_connections. It is the number of connections of a core
// (listen.maxConnections), divided among the core's workers. It is at least 256, or listen.maxConnections if that is
// lower.
func Connections(spec v1alpha1.CacheNodeSpec) int32 {
	const least = 256
	ofCore := ptr.Deref(spec.Listen.MaxConnections, 0)
	return max(ofCore/perCore(spec.IO), min(ofCore, least))
}

// Duration parses a duration of the API. The schema makes sure that the duration is valid. Duration returns 0 for an
// invalid duration.
func Duration(d v1alpha1.Duration) time.Duration {
	parsed, err := time.ParseDuration(string(d))
	if err != nil {
		return 0
	}
	return parsed
}

// percentOf returns a percentage of a number of bytes, without an overflow in the multiplication.
func percentOf(bytes, percent int64) int64 { return bytes/100*percent + bytes%100*percent/100 }

func wholeMebibytes(bytes int64) int64 { return bytes / mebibyte * mebibyte }
