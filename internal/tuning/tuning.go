// Package tuning has the defaults that depend on other fields: they stand in code, not in the CRD, so that they can
// improve. It is pure. Its functions take a spec with the CRD's own defaults applied.
package tuning

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

const mebibyte = 1 << 20

// threads by media. 16 is the article's, for hard disks; the others are starting points for disks that serve many
// reads at once.
var threads = map[v1alpha1.Media]int32{v1alpha1.HDD: 16, v1alpha1.SSD: 32, v1alpha1.NVMe: 64}

// Threads is the size of a disk's thread pool in each worker.
func Threads(d v1alpha1.Disk) int32 { return ptr.Deref(d.ThreadPool.Threads, threads[d.Media]) }

// MaxSize is the bytes that a disk's cache files may take: by default 90% of the disk, or what minFree leaves.
func MaxSize(d v1alpha1.Disk) int64 {
	if d.Cache.MaxSize != nil {
		return d.Cache.MaxSize.Value()
	}
	size := d.Size.Value()
	return wholeMebibytes(max(min(percentOf(size, 90), size-MinFree(d)), mebibyte))
}

// MinFree is the bytes of a disk that nginx keeps free: by default 5% of the disk.
func MinFree(d v1alpha1.Disk) int64 {
	if d.Cache.MinFree != nil {
		return d.Cache.MinFree.Value()
	}
	return wholeMebibytes(percentOf(d.Size.Value(), 5))
}

// KeysZone is the bytes of a disk's index: by default a 4096th of the disk, the article's 256 MiB for 1 TiB, which is
// room for as many objects of half a mebibyte as the disk holds. It depends on nothing that can be changed in a running
// nginx, as a zone of another size is a new and empty one.
func KeysZone(d v1alpha1.Disk) int64 {
	if d.Cache.KeysZone != nil {
		return d.Cache.KeysZone.Value()
	}
	return min(max(wholeMebibytes(d.Size.Value()/4096), 8*mebibyte), 4096*mebibyte)
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

// EjectBelow is the bytes of free space below which a disk is taken out of use: by default 2% of the disk, or half of
// what nginx keeps free, where that is less.
func EjectBelow(d v1alpha1.Disk) int64 {
	if d.Health.MinFree != nil {
		return d.Health.MinFree.Value()
	}
	below := percentOf(d.Size.Value(), 2)
	if free := MinFree(d); free > 0 {
		below = min(below, free/2)
	}
	return below
}

// KeysZones is the bytes of the indexes of all disks.
func KeysZones(disks []v1alpha1.Disk) int64 {
	var sum int64
	for _, d := range disks {
		sum += KeysZone(d)
	}
	return sum
}

// Memory is the bytes that nginx takes at least, besides the page cache: the keys zones, the connections that each worker
// prepares, and some for everything else. Without a CPU limit the number of workers is not known; one is counted.
func Memory(disks []v1alpha1.Disk, workers int32) int64 {
	const perWorker, base = 8 * mebibyte, 8 * mebibyte
	return KeysZones(disks) + int64(max(workers, 1))*perWorker + base
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
