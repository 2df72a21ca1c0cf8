// Package tuning has the defaults that depend on other fields: they stand in code, not in the CRD, so that they can
// improve. It is pure. Its functions take a spec with the CRD's own defaults applied.
package tuning

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// threads by media, see docs/adr/0019. Each worker has its own pool. The article's 16 keep a hard disk busy but not its
// keys apart: with 64, 1.6 times as many random objects of 1 MiB were served.
var threads = map[v1alpha1.Media]int32{v1alpha1.HDD: 64, v1alpha1.SSD: 32, v1alpha1.NVMe: 64}

const (
	// mostThreads is how many threads the pools of a pod have together where the spec leaves that open: the kubelet bounds
	// the processes of a pod, and threads count there. Where the number of workers is not known, manyWorkers are assumed.
	mostThreads = 1024
	manyWorkers = 16
	// articleThreads is always allowed.
	articleThreads = 16
)

// Threads is the size of a disk's thread pool in each worker: the spec's or, by media, as many as do not make the pools of
// all disks and workers too large together. workers is 0 where it is not known.
func Threads(d v1alpha1.Disk, disks int, workers int32) int32 {
	if d.ThreadPool.Threads != nil {
		return *d.ThreadPool.Threads
	}
	share := int32(mostThreads/max(disks, 1)) / max(cmp.Or(workers, manyWorkers), 1) //nolint:gosec // at most mostThreads
	return min(threads[d.Media], max(share, articleThreads))
}

// ProbeTimeout is how long a probe of a disk may take.
func ProbeTimeout(d v1alpha1.Disk) time.Duration {
	if d.Health.Timeout != "" {
		return Duration(d.Health.Timeout)
	}
	if d.Media == v1alpha1.HDD {
		return 2 * time.Second
	}
	return time.Second
}

// ShardDisks are the disks as sharding sees them: with their weights, or with their sizes where none has a weight.
func ShardDisks(disks []v1alpha1.Disk) []shard.Disk {
	sharded := make([]shard.Disk, len(disks))
	for i, d := range disks {
		sharded[i] = shard.Disk{Name: d.Name, Weight: wholeMebibytes(d.Size.Value()) / mebibyte}
		if d.Weight != nil {
			sharded[i].Weight = int64(*d.Weight)
		}
	}
	return sharded
}

// Workers is the number of nginx's workers: the CPU limit, rounded up, or 0 where there is none, for "auto".
func Workers(limit *resource.Quantity) int32 {
	if limit == nil || limit.Sign() <= 0 {
		return 0
	}
	return int32(min(limit.Value(), 1024)) //nolint:gosec // bounded
}

// Duration is a duration of the API, which is valid by its schema; the zero duration for one that is not.
func Duration(d v1alpha1.Duration) time.Duration {
	parsed, err := time.ParseDuration(string(d))
	if err != nil {
		return 0
	}
	return parsed
}

// percentOf avoids the overflow of bytes times percent.
func percentOf(bytes, percent int64) int64 { return bytes/100*percent + bytes%100*percent/100 }

func wholeMebibytes(bytes int64) int64 { return bytes / mebibyte * mebibyte }
