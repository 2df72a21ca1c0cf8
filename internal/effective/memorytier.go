package effective

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const (
	// leastTier is the smallest useful size of a memory tier, in bytes. tierWithoutLimit is the size of the tier if the
	// pod has no memory limit.
	leastTier        = 16 * mebibyte
	tierWithoutLimit = 128 * mebibyte
	tierObject       = 8 * mebibyte
)

// MemoryTier returns the memory tier of a spec, with enabled and size set. wanted is the value of enabled if the spec
// does not set it.
func MemoryTier(spec v1alpha1.CacheNodeSpec, wanted bool) v1alpha1.MemoryTier {
	tier := *spec.MemoryTier.DeepCopy()
	size := tierSize(spec)
	on := ptr.Deref(tier.Enabled, wanted) && size >= leastTier && keyOf(spec.Cache.Key) == ""
	tier.Enabled = &on
	if tier.Size == nil {
		tier.Size = resource.NewQuantity(size, resource.BinarySI)
	}
	return tier
}

// tierSize returns the size of the memory tier in bytes. It is the size in the spec. The default is a quarter of the
// memory limit, or 7/8 of the memory that nginx itself does not need, if that is less. The default is at most half of
// the memory request, because memory beyond the request can be taken away from the pod.
func tierSize(spec v1alpha1.CacheNodeSpec) int64 {
	limits := spec.Pod.Resources.Limits
	limit := limits.Memory().Value()
	size := int64(tierWithoutLimit)
	switch {
	case spec.MemoryTier.Size != nil:
		return spec.MemoryTier.Size.Value()
	case limit > 0:
		size = min(limit/4, max(limit-Memory(spec), 0)/8*7) // an eighth is for the index of the tier
	}
	if request, ok := spec.Pod.Resources.Requests[corev1.ResourceMemory]; ok {
		size = min(size, request.Value()/2)
	}
	return wholeMebibytes(size)
}

// HasMemoryTier returns true if the memory tier of a spec is enabled and has a size. MemoryTier sets both.
func HasMemoryTier(spec v1alpha1.CacheNodeSpec) bool {
	return ptr.Deref(spec.MemoryTier.Enabled, false) && spec.MemoryTier.Size != nil
}

// keyOf returns the part of a cache key with which the memory tier cannot work, Method or URI; "" if the key contains
// neither. The tier cannot work with them, because it requests an object by another method (HEAD), and by
// subrequests, which have their own URIs.
func keyOf(key []v1alpha1.KeyPart) v1alpha1.KeyPart {
	for _, part := range []v1alpha1.KeyPart{v1alpha1.KeyMethod, v1alpha1.KeyURI} {
		if slices.Contains(key, part) {
			return part
		}
	}
	return ""
}

// TierObject returns the size of the largest object that the tier takes, in bytes. It is at most an eighth of the tier.
func TierObject(t v1alpha1.MemoryTier) int64 {
	largest := int64(tierObject)
	if t.MaxObjectSize != nil {
		largest = t.MaxObjectSize.Value()
	}
	return min(largest, t.Size.Value()/8)
}

// TierInactive returns the time for which an object stays in the tier without a request. It is the time in the spec,
// but at most the time for which a copy is fresh. nginx must renew an older copy from its disk, so an older copy is no
// better than no copy. Also, nginx would serve the older copy until the renewal ends.
func TierInactive(t v1alpha1.MemoryTier) time.Duration {
	return min(Duration(t.Inactive), max(Duration(t.MaxExtraAge), time.Second))
}

// TierFiles returns the maximum total size of the tier's files in bytes. TierFree returns the space that nginx keeps
// free. The rest of the tier is for objects that arrive before nginx deletes the oldest objects. A full tier accepts
// no objects until nginx has deleted some.
func TierFiles(t v1alpha1.MemoryTier) int64 { return wholeMebibytes(t.Size.Value() / 4 * 3) }

// TierFree returns the value of min_free for the tier; see TierFiles.
func TierFree(t v1alpha1.MemoryTier) int64 { return wholeMebibytes(t.Size.Value() / 8) }

// TierBuffer is the maximum memory, in bytes, that a response from the tier uses until it is complete.
const TierBuffer = 64 << 10

// TierKeys returns the size of the tier's index in bytes. It is also the size of the list of requested objects, which
// includes objects that are not in the tier.
func TierKeys(t v1alpha1.MemoryTier) int64 {
	return min(max(wholeMebibytes(t.Size.Value()/32), mebibyte), 64*mebibyte)
}
