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
	// leastTier is the least memory that is worth a tier. tierWithoutLimit is its size if the pod has no memory limit.
	leastTier        = 16 * mebibyte
	tierWithoutLimit = 128 * mebibyte
	tierObject       = 8 * mebibyte
)

// MemoryTier returns the tier of a spec, with enabled and size filled in. wanted says whether there is one if the spec
// does not say.
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

// tierSize returns the spec's or, by default, a quarter of the memory limit, as far as that leaves nginx what it needs.
// The default is at most half of the memory request, as memory beyond the request can be taken away.
func tierSize(spec v1alpha1.CacheNodeSpec) int64 {
	limits := spec.Pod.Resources.Limits
	limit := limits.Memory().Value()
	size := int64(tierWithoutLimit)
	switch {
	case spec.MemoryTier.Size != nil:
		return spec.MemoryTier.Size.Value()
	case limit > 0:
		size = min(limit/4, max(limit-Memory(spec), 0)/8*7) // an eighth is for its index
	}
	if request, ok := spec.Pod.Resources.Requests[corev1.ResourceMemory]; ok {
		size = min(size, request.Value()/2)
	}
	return wholeMebibytes(size)
}

// HasMemoryTier returns true for a spec in which MemoryTier has been filled in and switched on.
func HasMemoryTier(spec v1alpha1.CacheNodeSpec) bool {
	return ptr.Deref(spec.MemoryTier.Enabled, false) && spec.MemoryTier.Size != nil
}

// keyOf returns the part of a cache key with which the tier cannot work, "" for none. The tier requests an object with
// another method (HEAD), and in subrequests, which have URIs of their own.
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

// TierInactive returns how long an object stays in the tier without a request: as the spec says, but no longer than a
// copy is fresh. An older copy must be renewed by its disk, which is no better than none, and it would be served
// meanwhile.
func TierInactive(t v1alpha1.MemoryTier) time.Duration {
	return min(Duration(t.Inactive), max(Duration(t.MaxExtraAge), time.Second))
}

// TierFiles returns the bytes that the tier's files may take, and TierFree is what nginx keeps free. The rest of the
// tier is for objects that come in until nginx deletes the oldest. A full tier takes no more until then.
func TierFiles(t v1alpha1.MemoryTier) int64 { return wholeMebibytes(t.Size.Value() / 4 * 3) }

// TierFree returns the value of min_free for the tier; see TierFiles.
func TierFree(t v1alpha1.MemoryTier) int64 { return wholeMebibytes(t.Size.Value() / 8) }

// TierBuffer is the bytes of memory that a response from the tier takes while it lasts, at most.
const TierBuffer = 64 << 10

// TierKeys returns the bytes of the tier's index, and also of the list of requested objects, in the tier or not.
func TierKeys(t v1alpha1.MemoryTier) int64 {
	return min(max(wholeMebibytes(t.Size.Value()/32), mebibyte), 64*mebibyte)
}
