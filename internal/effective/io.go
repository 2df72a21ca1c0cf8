package effective

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// ReadAhead returns the value of read_ahead, in bytes; 0 for off.
func ReadAhead(io v1alpha1.IO) int64 {
	if io.ReadAhead != nil {
		return io.ReadAhead.Value()
	}
	return mebibyte
}

// ioMode returns the mode that is in effect, and the reason for it.
func ioMode(spec v1alpha1.CacheNodeSpec, before Serving) (mode v1alpha1.IOMode, why string) {
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
	if spec.Pod.Resources.Limits.Memory().IsZero() {
		return v1alpha1.IOThreads, "without a memory limit it is not known whether the caches fit into memory"
	}
	direct := spec
	direct.IO.Mode = v1alpha1.IODirect
	if room := roomForPages(direct); caches <= room {
		return v1alpha1.IODirect, fmt.Sprintf("the caches, %s together, fit into the %s of memory "+
			"that are left for pages, so no read waits for a disk for long", Bytes(caches), Bytes(room))
	}
	if against := againstWorkers(spec, before); against != "" {
		return v1alpha1.IOThreads, fmt.Sprintf("the caches, %s together, do not fit into the %s of memory "+
			"that are left for pages, and %s", Bytes(caches), Bytes(roomForPages(spec)), against)
	}
	return v1alpha1.IOWorkers, "all disks are NVMe, which answer so fast that a thread switch costs more than the wait"
}

// roomOfACore is the minimum memory for each core, in bytes, that must be left for pages and responses. With less
// memory, the operator does not choose io.mode Workers. The memory is enough for 256 responses in progress.
const roomOfACore = 256 * CopyBuffers * CopyBuffer

// againstWorkers returns the reason why the operator does not choose io.mode Workers; "" if there is none.
func againstWorkers(spec v1alpha1.CacheNodeSpec, before Serving) string {
	if slices.ContainsFunc(spec.Disks, func(d v1alpha1.Disk) bool { return d.Media != v1alpha1.NVMe }) {
		return "not all disks are NVMe"
	}
	if HasMemoryTier(spec) {
		return "there is a memory tier"
	}
	if before == WithTier || before == WithoutTier {
		return "its pods were not in mode Workers so far; set io.mode to Workers if you want that"
	}
	cores := Cores(spec.Pod.Resources.Limits.Cpu())
	if cores == 0 {
		return "without a CPU limit the number of workers is not known"
	}
	spec.IO.Mode = v1alpha1.IOWorkers
	if room, least := roomForPages(spec), int64(cores)*roomOfACore; room < least {
		return fmt.Sprintf("mode Workers would leave %s of memory, and %s are needed for responses in progress",
			Bytes(room), Bytes(least))
	}
	return ""
}

// roomForPages returns the bytes of a spec's memory limit that are left for the page cache.
func roomForPages(spec v1alpha1.CacheNodeSpec) int64 {
	room := spec.Pod.Resources.Limits.Memory().Value() - Memory(spec)
	if HasMemoryTier(spec) {
		room -= spec.MemoryTier.Size.Value() + 2*TierKeys(spec.MemoryTier)
	}
	return max(room, 0)
}

// memoryShares returns a text that shows how the memory limit is divided. Without a memory limit, it returns nil.
func memoryShares(spec v1alpha1.CacheNodeSpec) []string {
	limit := spec.Pod.Resources.Limits.Memory()
	if limit.IsZero() {
		return nil
	}
	workers, tier := "", ""
	if Cores(spec.Pod.Resources.Limits.Cpu()) == 0 {
		workers = " with one worker, and more with each other worker, as there is no CPU limit"
	}
	if HasMemoryTier(spec) {
		size := spec.MemoryTier.Size.Value() + 2*TierKeys(spec.MemoryTier)
		tier = fmt.Sprintf("; the memory tier and its index take %s, and a response from it up to %s while it lasts",
			Bytes(size), Bytes(TierBuffer))
	}
	responses := fmt.Sprintf("responses that are not in the cache, each of which takes %s", Bytes(MissBuffers))
	if spec.IO.Mode == v1alpha1.IOWorkers && !ptr.Deref(spec.IO.Sendfile, false) {
		responses = fmt.Sprintf("responses, each of which takes up to %s", Bytes(CopyBuffers*CopyBuffer))
	}
	if spec.Routing.Mode == v1alpha1.RoutingSharded {
		responses += fmt.Sprintf(" (from another pod up to %s)", Bytes(HopBuffers))
	}
	return []string{fmt.Sprintf("memory limit %s: nginx takes %s%s, %s of it for keys zones%s; "+
		"%s are left for the page cache and for %s while it lasts",
		limit, Bytes(Memory(spec)), workers, Bytes(Sum(KeysZones(spec.Disks, limit.Value()))), tier,
		Bytes(roomForPages(spec)), responses)}
}

// Before contains the choices that the operator has made for a CacheNode so far. If the spec does not set a value,
// the operator keeps to the earlier choice, so that an upgrade of the operator replaces no pods. The zero value is
// for a new CacheNode.
type Before struct {
	// Serving records whether the CacheNode has a memory tier, and whether its io.mode is Workers.
	Serving Serving
	// Routing is the routing.mode of the CacheNode. It is "" if the CacheNode had at most one pod, which did not share
	// its keys.
	Routing v1alpha1.RoutingMode
}

// Serving records whether a CacheNode has a memory tier, and whether io.mode is Workers.
type Serving int

// The values of Serving.
const (
	// Nothing means that the CacheNode is new. It gets a memory tier if a tier is useful, and io.mode Workers if its
	// disks are suitable.
	Nothing Serving = iota
	// WithTier means that the CacheNode has a memory tier and keeps it.
	WithTier
	// WithoutTier means that the CacheNode gets neither a memory tier nor io.mode Workers.
	WithoutTier
	// WithWorkers means that the CacheNode has io.mode Workers without a memory tier. It keeps this mode if its disks
	// are still suitable.
	WithWorkers
)

// Resolve chooses values that a spec may leave open and that must be the same for all pods: the memory tier, io.mode
// and routing.mode. choices lists the choices and the reasons for them.
func Resolve(spec v1alpha1.CacheNodeSpec, had Before) (resolved v1alpha1.CacheNodeSpec, choices []string) {
	routing, whyRouting := routingMode(spec, had)
	spec.Routing.Mode = routing
	before := had.Serving
	useless := before == Nothing && spec.MemoryTier.Enabled == nil && spec.MemoryTier.Size == nil && noWaits(spec)
	spec.MemoryTier = MemoryTier(spec, (before == Nothing || before == WithTier) && !useless)
	mode, why := ioMode(spec, before)
	spec.IO.Mode = mode
	spec.Cache = Stale(spec.Cache)
	return spec, append(memoryShares(spec), fmt.Sprintf("io.mode is %s: %s", mode, why), tierChoice(spec, useless),
		fmt.Sprintf("routing.mode is %s: %s", routing, whyRouting))
}

// tierChoice returns a text that says whether there is a memory tier, and why.
func tierChoice(spec v1alpha1.CacheNodeSpec, useless bool) string {
	switch {
	case HasMemoryTier(spec):
		return fmt.Sprintf("memoryTier is on: %s in memory, for objects of up to %s",
			spec.MemoryTier.Size, Bytes(TierObject(spec.MemoryTier)))
	case keyOf(spec.Cache.Key) != "":
		return fmt.Sprintf("memoryTier is off: cache.key has %s", keyOf(spec.Cache.Key))
	case useless && spec.IO.Mode == v1alpha1.IOWorkers:
		return "memoryTier is off: an object on a disk of io.mode Workers hardly waits; memoryTier.enabled switches it on"
	case useless:
		return "memoryTier is off: the pages of all caches are in memory anyway; memoryTier.enabled switches it on"
	case spec.MemoryTier.Size.Value() < leastTier:
		return "memoryTier is off: the memory limit, or half of the memory request, leaves too little for it"
	}
	return "memoryTier is off"
}

// noWaits returns true if a hit hardly waits for a disk even without a memory tier: io.mode is Workers, or the
// operator chooses Direct for Auto. With Direct, a tier would contain objects that are in memory already. A hit of 1
// MiB from the tier also costs more than a hit from the pages of its disk (docs/adr/0018).
func noWaits(spec v1alpha1.CacheNodeSpec) bool {
	spec.MemoryTier = MemoryTier(spec, false)
	mode, _ := ioMode(spec, Nothing)
	return mode == v1alpha1.IOWorkers ||
		mode == v1alpha1.IODirect && cmp.Or(spec.IO.Mode, v1alpha1.IOAuto) == v1alpha1.IOAuto
}
