package tuning

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// ReadAhead is the value of read_ahead, in bytes; 0 for off.
func ReadAhead(io v1alpha1.IO) int64 {
	if io.ReadAhead != nil {
		return io.ReadAhead.Value()
	}
	return mebibyte
}

// ioMode is the mode in effect, and why. limit is nginx's memory limit in bytes, 0 if there is none.
func ioMode(spec v1alpha1.CacheNodeSpec, limit int64) (mode v1alpha1.IOMode, why string) {
	if mode = cmp.Or(spec.IO.Mode, v1alpha1.IOAuto); mode != v1alpha1.IOAuto {
		return mode, "set by spec.io.mode"
	}
	var caches int64
	for _, d := range spec.Disks {
		caches += MaxSize(d)
	}
	if slices.ContainsFunc(spec.Disks, func(d v1alpha1.Disk) bool {
		return d.Media != v1alpha1.SSD && d.Media != v1alpha1.NVMe
	}) {
		return v1alpha1.IOThreads, "a hard disk that is slow or hangs must not hold up a worker"
	}
	if limit == 0 {
		return v1alpha1.IOThreads, "without a memory limit it is not known whether the caches fit into memory"
	}
	direct := spec
	direct.IO.Mode = v1alpha1.IODirect
	if room := roomForPages(direct); caches <= room {
		return v1alpha1.IODirect, fmt.Sprintf("the caches, %s together, fit into the %s of memory "+
			"that are left for pages, so no read waits for a disk for long", Bytes(caches), Bytes(room))
	}
	return v1alpha1.IOThreads, fmt.Sprintf("the caches, %s together, do not fit into the %s of memory "+
		"that are left for pages", Bytes(caches), Bytes(roomForPages(spec)))
}

// roomForPages is the bytes of a spec's memory limit that are left for the page cache.
func roomForPages(spec v1alpha1.CacheNodeSpec) int64 {
	room := spec.Pod.Resources.Limits.Memory().Value() - Memory(spec)
	if HasMemoryTier(spec) {
		room -= spec.MemoryTier.Size.Value() + 2*TierKeys(spec.MemoryTier)
	}
	return max(room, 0)
}

// memoryShares tells what the memory limit is for. It is empty without a limit.
func memoryShares(spec v1alpha1.CacheNodeSpec) []string {
	limit := spec.Pod.Resources.Limits.Memory()
	if limit.IsZero() {
		return nil
	}
	workers, tier := "", ""
	if Workers(spec.Pod.Resources.Limits.Cpu()) == 0 {
		workers = " with one worker, and more with each other worker, as there is no CPU limit"
	}
	if HasMemoryTier(spec) {
		size := spec.MemoryTier.Size.Value() + 2*TierKeys(spec.MemoryTier)
		tier = fmt.Sprintf("; the memory tier and its index take %s", Bytes(size))
	}
	return []string{fmt.Sprintf("memory limit %s: nginx takes %s%s, %s of it for keys zones%s; "+
		"%s are left for the page cache and for responses that are not in the cache, each of which takes %s while it lasts",
		limit, Bytes(Memory(spec)), workers, Bytes(Sum(KeysZones(spec.Disks, limit.Value()))), tier,
		Bytes(roomForPages(spec)), Bytes(MissBuffers))}
}

// Before says whether a CacheNode has had a memory tier. It counts if the spec does not say whether it has one.
type Before int

// What a CacheNode can have had.
const (
	// Nothing means that the CacheNode is new. It gets a tier if that is of use.
	Nothing Before = iota
	// WithTier means that it keeps its tier.
	WithTier
	// WithoutTier means that it gets none.
	WithoutTier
)

// Resolve fills in what a spec leaves open and what must be the same for all pods: the memory tier and io.mode. choices
// says what was chosen, and why.
func Resolve(spec v1alpha1.CacheNodeSpec, before Before) (resolved v1alpha1.CacheNodeSpec, choices []string) {
	useless := before == Nothing && spec.MemoryTier.Enabled == nil && spec.MemoryTier.Size == nil && allInMemory(spec)
	spec.MemoryTier = MemoryTier(spec, before != WithoutTier && !useless)
	mode, why := ioMode(spec, spec.Pod.Resources.Limits.Memory().Value())
	spec.IO.Mode = mode
	spec.Cache = Stale(spec.Cache)
	return spec, append(memoryShares(spec), fmt.Sprintf("io.mode is %s: %s", mode, why), tierChoice(spec, useless))
}

// tierChoice says whether there is a memory tier, and why.
func tierChoice(spec v1alpha1.CacheNodeSpec, useless bool) string {
	switch {
	case HasMemoryTier(spec):
		return fmt.Sprintf("memoryTier is on: %s in memory, for objects of up to %s",
			spec.MemoryTier.Size, Bytes(TierObject(spec.MemoryTier)))
	case keyOf(spec.Cache.Key) != "":
		return fmt.Sprintf("memoryTier is off: cache.key has %s", keyOf(spec.Cache.Key))
	case useless:
		return "memoryTier is off: the pages of all caches are in memory anyway; memoryTier.enabled switches it on"
	case spec.MemoryTier.Size.Value() < leastTier:
		return "memoryTier is off: the memory limit, or half of the memory request, leaves too little for it"
	}
	return "memoryTier is off"
}

// allInMemory is true if io.mode Auto means Direct without a tier. A tier would then hold what is in memory already,
// and a hit of 1 MiB from it costs more than one from the pages of its disk (docs/adr/0018).
func allInMemory(spec v1alpha1.CacheNodeSpec) bool {
	spec.MemoryTier = MemoryTier(spec, false)
	mode, _ := ioMode(spec, spec.Pod.Resources.Limits.Memory().Value())
	return mode == v1alpha1.IODirect && cmp.Or(spec.IO.Mode, v1alpha1.IOAuto) == v1alpha1.IOAuto
}
