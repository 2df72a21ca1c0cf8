package tuning

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const (
	// leastTier is the least memory that is worth a tier; tierWithoutLimit its size where the pod has no memory limit.
	leastTier        = 16 * mebibyte
	tierWithoutLimit = 128 * mebibyte
)

// MemoryTier is the tier that a spec has, with enabled and size filled in: wanted is whether there is one where the spec
// does not say.
func MemoryTier(spec v1alpha1.CacheNodeSpec, wanted bool) v1alpha1.MemoryTier {
	tier := *spec.MemoryTier.DeepCopy()
	size := tierSize(spec)
	on := ptr.Deref(tier.Enabled, wanted) && size >= leastTier && !slices.Contains(spec.Cache.Key, v1alpha1.KeyMethod)
	tier.Enabled = &on
	if tier.Size == nil {
		tier.Size = resource.NewQuantity(size, resource.BinarySI)
	}
	return tier
}

// tierSize is the spec's, or a quarter of the memory limit, as far as that leaves nginx what it needs.
func tierSize(spec v1alpha1.CacheNodeSpec) int64 {
	limits := spec.Pod.Resources.Limits
	limit := limits.Memory().Value()
	switch {
	case spec.MemoryTier.Size != nil:
		return spec.MemoryTier.Size.Value()
	case limit == 0:
		return tierWithoutLimit
	}
	return wholeMebibytes(min(limit/4, max(limit-Memory(spec.Disks, limit, Workers(limits.Cpu())), 0)))
}

// HasMemoryTier is true for a spec in which MemoryTier has been filled in and switched on.
func HasMemoryTier(spec v1alpha1.CacheNodeSpec) bool {
	return ptr.Deref(spec.MemoryTier.Enabled, false) && spec.MemoryTier.Size != nil
}

// TierObject is the largest object that the tier takes: one more must fit while nginx looks for what to delete.
func TierObject(t v1alpha1.MemoryTier) int64 {
	return min(t.MaxObjectSize.Value(), t.Size.Value()/8)
}

// TierFiles is the bytes that the tier's files may take; the rest of its size is for its folders and for what comes in
// until nginx deletes the oldest.
func TierFiles(t v1alpha1.MemoryTier) int64 { return wholeMebibytes(t.Size.Value() / 8 * 7) }

// TierKeys is the bytes of the tier's index. It has an entry for each object that was asked for of late, in the tier or
// not; and of the list of those that are asked for often.
func TierKeys(t v1alpha1.MemoryTier) int64 {
	return min(max(wholeMebibytes(t.Size.Value()/32), mebibyte), 64*mebibyte)
}
