// Package tuning has the defaults that depend on other fields. They are in code and not in the CRD, so that they can
// improve. It is pure. Its functions take a spec with the CRD's own defaults applied.
package tuning

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// threads is the size of a thread pool by media, see docs/adr/0019. Each worker has its own pool. The article's 16 keep
// a hard disk busy, but 64 served 1.6 times as many random objects of 1 MiB.
var threads = map[v1alpha1.Media]int32{v1alpha1.HDD: 64, v1alpha1.SSD: 32, v1alpha1.NVMe: 64}

const (
	// mostThreads is how many threads all pools of a pod have together if the spec leaves that open: the kubelet limits
	// the processes of a pod, and threads count as such. manyWorkers is assumed if the number of workers is not known.
	mostThreads = 1024
	manyWorkers = 16
	// articleThreads is always allowed, even beyond mostThreads.
	articleThreads = 16
)

// Threads is the size of a disk's thread pool in each worker: the spec's or, by media, as many as keep the pools of all
// disks and workers within mostThreads together. workers is 0 if it is not known.
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

// ShardDisks are the disks as sharding sees them: with their weights, or with their sizes if none has a weight.
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

// Workers is the number of nginx's workers: the CPU limit, rounded up, or 0 for "auto" if there is none.
func Workers(limit *resource.Quantity) int32 {
	if limit == nil || limit.Sign() <= 0 {
		return 0
	}
	return int32(min(limit.Value(), 1024)) //nolint:gosec // bounded
}

// Duration parses a duration of the API, which is valid by its schema. It returns 0 for one that is not.
func Duration(d v1alpha1.Duration) time.Duration {
	parsed, err := time.ParseDuration(string(d))
	if err != nil {
		return 0
	}
	return parsed
}

// percentOf is percent of bytes, without an overflow of their product.
func percentOf(bytes, percent int64) int64 { return bytes/100*percent + bytes%100*percent/100 }

func wholeMebibytes(bytes int64) int64 { return bytes / mebibyte * mebibyte }
