package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// MemoryTier is a cache in memory in front of the disks. It serves objects that are requested often. Requests for these
// objects then do not wait in the queue of a disk. nginx fills the tier in the background, only from the disks. The
// tier holds only whole responses with status 200 and a Content-Length. A request that the tier cannot answer goes to
// its disk, as if there were no tier.
type MemoryTier struct {
	// enabled switches the tier on or off. If enabled is unset, a new CacheNode has a tier, with two exceptions. If size
	// is unset too, a new CacheNode has no tier if io.mode is Workers, or if Auto chooses Direct because all caches fit
	// into memory. If enabled is unset, an existing CacheNode keeps its tier, or stays without one: an upgrade of the
	// operator does not switch the tier on. The tier stays off if cache.key contains Method or URI, or if the default size
	// would be below 16Mi. A change replaces the pods.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// size is the memory for the tier. This memory is part of pod.resources.limits.memory, because the pages of a tmpfs
	// count toward the limit. Range 16Mi to half of this limit, and at most pod.resources.requests.memory. Default a
	// quarter of the limit, or 128Mi without a limit. The default is at most half of pod.resources.requests.memory, and
	// at most the part of the limit that nginx and the tier's index do not need. A change replaces the pods.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('16Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Ti')) <= 0",message="size: must be from 16Mi to 16Ti"
	Size *resource.Quantity `json:"size,omitempty"`

	// minUses is the number of requests within about ten seconds above which an object is copied from its disk into memory
	// (limit_req, in a dry run). Range 1 to 1000, default 4.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinUses *int32 `json:"minUses,omitempty"`

	// maxObjectSize is the size above which objects are not copied into the tier. Range 1Ki to 1Gi, default 8Mi. The
	// effective value is never more than an eighth of size.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="maxObjectSize: must be from 1Ki to 1Gi"
	MaxObjectSize *resource.Quantity `json:"maxObjectSize,omitempty"`

	// inactive is the time without a request after which an object leaves the memory (inactive of proxy_cache_path). If
	// maxExtraAge is shorter, maxExtraAge applies instead, because an older copy is no longer valid. Default 10m.
	// +optional
	// +kubebuilder:default="10m"
	Inactive Duration `json:"inactive,omitempty"`

	// maxExtraAge limits how much longer the tier serves an object than its disk would. nginx makes a copy from a fresh
	// object on the disk. The copy is then valid for this time, or for the object's own lifetime if that is shorter. An
	// object is not copied if its lifetime is shorter than 10s, or comes only from Expires. The first request after the
	// end of this time starts a renewal of the copy. The old copy is served until the renewal ends. Objects that nobody
	// requests during maxExtraAge leave the memory. If an object is seldom requested, the tier therefore serves it longer
	// than the disk would. The extra time is at most twice maxExtraAge, plus ten seconds, plus the duration of the
	// renewal. At least 1s, default 30s.
	// +optional
	// +kubebuilder:default="30s"
	MaxExtraAge Duration `json:"maxExtraAge,omitempty"`
}
