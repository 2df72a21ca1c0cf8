package effective

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const mebibyte = 1 << 20

// Measured returns the disk with its real size, which is never larger than its file system. measured is in bytes, 0 if
// it is not known. Limits that the spec leaves open follow from the real size.
func Measured(d v1alpha1.Disk, measured int64) v1alpha1.Disk {
	if measured > 0 && measured < d.Size.Value() {
		d.Size = *resource.NewQuantity(measured, resource.BinarySI)
	}
	return d
}

// MaxSize returns the bytes that a disk's cache files may take: by default 90% of the disk, but never more than MinFree
// leaves.
func MaxSize(d v1alpha1.Disk) int64 {
	limit := percentOf(d.Size.Value(), 90)
	if d.Cache.MaxSize != nil {
		limit = d.Cache.MaxSize.Value()
	}
	return max(min(limit, d.Size.Value()-MinFree(d))/mebibyte*mebibyte, mebibyte)
}

// writeRate is what a disk of each kind can take in, in bytes a second, rather too much than too little.
var writeRate = map[v1alpha1.Media]int64{
	v1alpha1.HDD:  150 * mebibyte,
	v1alpha1.SSD:  500 * mebibyte,
	v1alpha1.NVMe: 2048 * mebibyte,
}

// evictionSeconds is the longest time between two checks of nginx whether a cache is too large
// (ngx_http_file_cache_manager).
const evictionSeconds = 10

// MinFree returns the bytes of a disk that nginx keeps free. By default it is what the disk can take in between two
// checks of nginx, so that the disk does not fill up in between. It is at least 5% and at most 25% of the disk, and
// also room for responses that are being written.
func MinFree(d v1alpha1.Disk) int64 {
	if d.Cache.MinFree != nil {
		return d.Cache.MinFree.Value()
	}
	size := d.Size.Value()
	return wholeMebibytes(min(max(percentOf(size, 5), evictionSeconds*writeRate[d.Media]), percentOf(size, 25)))
}

// KeysZone returns the bytes of a disk's index. By default it is a 4096th of the disk, the article's 256 MiB for 1 TiB,
// which is room for as many objects of half a mebibyte as the disk holds. It does not depend on anything in the spec
// that can change in a running nginx, as a zone of another size is a new and empty one. A file system that grows gets a
// new one.
func KeysZone(d v1alpha1.Disk) int64 {
	if d.Cache.KeysZone != nil {
		return d.Cache.KeysZone.Value()
	}
	return min(max(wholeMebibytes(d.Size.Value()/4096), 8*mebibyte), 4096*mebibyte)
}

// KeysZones returns the size of each disk's keys zone in bytes, so that all fit into a limit of memory; 0 is no limit.
// The zones that the spec leaves open take together at most half of the limit, in proportion: a larger zone is of no
// use to a cache without memory for pages.
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

// EjectBelow returns the bytes of free space below which a disk is taken out of use: by default 2% of the disk, or half
// of what nginx keeps free if that is less.
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

// Memory returns the least bytes of a spec's memory limit that nginx takes, besides the page cache and the memory tier:
// the keys zones, what each worker allocates, and some for everything else. Without a CPU limit the number of workers
// is not known, and one is counted. Responses are not included: a hit takes only pages, and a miss MissBuffers.
func Memory(spec v1alpha1.CacheNodeSpec) int64 {
	const base = 8 * mebibyte
	limits := spec.Pod.Resources.Limits
	cores := Cores(limits.Cpu())
	return Sum(KeysZones(spec.Disks, limits.Memory().Value())) +
		int64(max(Workers(spec.IO, cores), 1))*perWorker(spec, cores) + base
}

// CopyBuffers is how many buffers a response in progress may take with io.mode Workers, and CopyBuffer the bytes of
// each (output_buffers).
const (
	CopyBuffers = 2
	CopyBuffer  = 128 << 10
)

// MissBuffers is the bytes of a worker's memory that a miss takes while it lasts (proxy_buffer_size and proxy_buffers).
const MissBuffers = 20<<10 + 8*4<<10

// perWorker returns the bytes that a worker takes, in whole MiB: its connections, which nginx allocates at start (a
// ngx_connection_t and two ngx_event_t each), the touched part of its threads' stacks, and the rest of its heap.
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

// Sum adds the zones up.
func Sum(zones map[string]int64) int64 {
	var sum int64
	for _, zone := range zones {
		sum += zone
	}
	return sum
}

// Contradictions returns the limits in the spec that a disk's file system cannot hold, with the arithmetic.
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

// About writes a number of bytes as a Kubernetes quantity that a person can read at a glance: a number that is no
// multiple of a large unit is rounded down to a tenth of one, such as 5.3Gi.
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

// Bytes writes a number of bytes as a Kubernetes quantity, such as 10Gi.
func Bytes(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
