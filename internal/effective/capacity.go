package effective

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const mebibyte = 1 << 20

// Measured returns the disk with its real size: the size in the spec, or the size of the file system if that is
// smaller. measured is the size of the file system in bytes; 0 if it is not known. Limits that the spec does not set
// are computed from the real size.
func Measured(d v1alpha1.Disk, measured int64) v1alpha1.Disk {
	if measured > 0 && measured < d.Size.Value() {
		d.Size = *resource.NewQuantity(measured, resource.BinarySI)
	}
	return d
}

// MaxSize returns the maximum total size of a disk's cache files in bytes. By default it is 90% of the disk, but it
// is never more than the size of the disk minus MinFree.
func MaxSize(d v1alpha1.Disk) int64 {
	limit := percentOf(d.Size.Value(), 90)
	if d.Cache.MaxSize != nil {
		limit = d.Cache.MaxSize.Value()
	}
	return max(min(limit, d.Size.Value()-MinFree(d))/mebibyte*mebibyte, mebibyte)
}

// writeRate is the highest write rate of a disk of each kind, in bytes a second. The rates are estimates. They are
// meant to be too high rather than too low.
var writeRate = map[v1alpha1.Media]int64{
	v1alpha1.HDD:  150 * mebibyte,
	v1alpha1.SSD:  500 * mebibyte,
	v1alpha1.NVMe: 2048 * mebibyte,
}

// evictionSeconds is the longest time, in seconds, between two checks in which nginx finds out whether a cache is too
// large (ngx_http_file_cache_manager).
const evictionSeconds = 10

// MinFree returns the number of bytes that nginx keeps free on a disk. By default it is the amount that can be
// written to the disk until nginx checks the size of the cache again. So the disk does not fill up between two
// checks. The default is at least 5% and at most 25% of the disk. Responses that are being written use this space
// too.
func MinFree(d v1alpha1.Disk) int64 {
	if d.Cache.MinFree != nil {
		return d.Cache.MinFree.Value()
	}
	size := d.Size.Value()
	return wholeMebibytes(min(max(percentOf(size, 5), evictionSeconds*writeRate[d.Media]), percentOf(size, 25)))
}

// KeysZone returns the size of a disk's index in bytes. By default it is the size of the disk divided by 4096, which is
// 256 MiB for 1 TiB, as in the article (docs/concepts/thread-pools.md). An index of this size can hold all keys of a
// disk that is full of objects of half a mebibyte. The size must not depend on fields of the spec that can change while
// nginx runs. If the size changed, nginx would create a new, empty zone. If the file system grows, the disk gets a new
// zone.
func KeysZone(d v1alpha1.Disk) int64 {
	if d.Cache.KeysZone != nil {
		return d.Cache.KeysZone.Value()
	}
	return min(max(wholeMebibytes(d.Size.Value()/4096), 8*mebibyte), 4096*mebibyte)
}

// KeysZones returns the size of each disk's keys zone in bytes. memory is the memory limit in bytes; 0 means no
// limit. If all zones together need more than half of the limit, the zones whose size the spec does not set are
// reduced in proportion. Larger zones would be of no use, because the cache would have no memory left for pages.
func KeysZones(disks []v1alpha1.Disk, memory int64) map[string]int64 {
	zones := map[string]int64{}
	var given, open int64
	for _, d := range disks {
		zones[d.Name] = KeysZone(d)
		if d.Cache.KeysZone != nil {
			given += zones[d.Name]
		} else {
			open += zones[d.Name]
		}
	}
	room := max(memory/2-given, 0)
	if memory <= 0 || open <= room {
		return zones
	}
	for _, d := range disks {
		if d.Cache.KeysZone == nil {
			share := float64(zones[d.Name]) / float64(open)
			zones[d.Name] = max(wholeMebibytes(int64(share*float64(room))), mebibyte)
		}
	}
	return zones
}

// EjectBelow returns the free space, in bytes, below which a disk is taken out of use. By default it is 2% of the disk.
// nginx keeps MinFree bytes free on the disk. If MinFree is not 0, and half of it is less than 2% of the disk, the
// default is half of MinFree.
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

// Memory returns the minimum memory, in bytes, that nginx needs with a spec. The page cache and the memory tier are
// not included. It is the sum of the keys zones, what each worker allocates, and a reserve for everything else.
// Without a CPU limit the number of workers is not known, and Memory counts one worker. The memory for responses is
// not included: a hit needs only pages of the page cache, and a miss needs MissBuffers.
func Memory(spec v1alpha1.CacheNodeSpec) int64 {
	const base = 8 * mebibyte
	limits := spec.Pod.Resources.Limits
	cores := Cores(limits.Cpu())
	return Sum(KeysZones(spec.Disks, limits.Memory().Value())) +
		int64(max(Workers(spec.IO, cores), 1))*perWorker(spec, cores) + base
}

// CopyBuffers is the maximum number of buffers of a response in progress with io.mode Workers. CopyBuffer is the size
// of each buffer in bytes (output_buffers).
const (
	CopyBuffers = 2
	CopyBuffer  = 128 << 10
)

// MissBuffers is the memory, in bytes, that a worker uses for a miss until the response is complete (proxy_buffer_size
// and proxy_buffers).
const MissBuffers = 20<<10 + 8*4<<10

// perWorker returns the memory of a worker in bytes, rounded up to whole MiB. It includes the connections, which
// nginx allocates at start (a ngx_connection_t and two ngx_event_t for each). It also includes the used part of the
// stacks of the worker's threads, and the rest of its heap.
func perWorker(spec v1alpha1.CacheNodeSpec, cores int32) int64 {
	const heap, connection, stack = mebibyte, 448, 32 << 10
	bytes := heap + int64(Connections(spec))*connection
	if spec.IO.Mode != v1alpha1.IODirect {
		for _, d := range spec.Disks {
			bytes += int64(Threads(d, spec.IO, len(spec.Disks), cores)) * stack
		}
	}
	return (bytes + mebibyte - 1) / mebibyte * mebibyte
}

// Sum returns the total size of the zones.
func Sum(zones map[string]int64) int64 {
	var sum int64
	for _, zone := range zones {
		sum += zone
	}
	return sum
}

// Contradictions returns one text for each limit in the spec that does not fit the size of the disk's file system.
// Each text shows the calculation.
func Contradictions(d v1alpha1.Disk, measured int64) []string {
	if measured <= 0 {
		return nil
	}
	var list []string
	is := Measured(d, measured)
	path := fmt.Sprintf("spec.disks[%s]", d.Name)
	free, eject := MinFree(is), EjectBelow(is)
	switch given := d.Cache.MaxSize; {
	case given != nil && given.Value() > measured:
		list = append(list, fmt.Sprintf("%s.cache.maxSize: %s is more than the file system has, which is %s: "+
			"lower it, or leave it out for 90%% of that", path, given.String(), Bytes(measured)))
	case given != nil && free == 0 && given.Value()+eject > measured:
		list = append(list, fmt.Sprintf("%s.cache.maxSize: %s and the %s below which the disk is taken out of use "+
			"are %s together, and the file system has %s: lower it, or let cache.minFree be more than 0",
			path, given.String(), Bytes(eject), Bytes(given.Value()+eject), Bytes(measured)))
	case free >= measured:
		list = append(list, fmt.Sprintf("%s.cache.minFree: %s is all of the file system, which has %s: lower it",
			path, Bytes(free), Bytes(measured)))
	}
	if given := d.Health.MinFree; given != nil && !given.IsZero() && free > 0 && given.Value() >= free {
		list = append(list, fmt.Sprintf("%s.health.minFree: %s is not less than cache.minFree, "+
			"which is %s on a file system of %s: lower it",
			path, given.String(), Bytes(free), Bytes(measured)))
	}
	return list
}

// About returns a number of bytes as a Kubernetes quantity that a person can read easily. It rounds the number down
// to a tenth of its largest unit, such as 5.3Gi, unless the number is a multiple of the next smaller unit.
func About(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 40, "Ti"}, {1 << 30, "Gi"}, {1 << 20, "Mi"}} {
		if n >= unit.bytes && n%(unit.bytes/1024) != 0 {
			return fmt.Sprintf("%d.%d%s", n/unit.bytes, n%unit.bytes*10/unit.bytes, unit.name)
		}
	}
	return Bytes(n)
}

// Bytes returns a number of bytes as a Kubernetes quantity, such as 10Gi.
func Bytes(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
