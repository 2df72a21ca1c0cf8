package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// MemoryTier is a cache in memory in front of the disks. It serves objects that are requested often, so that they never
// wait in the queue of their disk. It is filled from the disks alone, in the background, with whole responses of status
// 200 that have a Content-Length. A request that it cannot answer goes to its disk as if there were no tier.
type MemoryTier struct {
	// enabled switches the tier on or off. By default, a new CacheNode has a tier unless io.mode becomes Direct by itself,
	// as all caches are in memory then. An existing CacheNode keeps what it has; an upgrade of the operator switches
	// nothing on. The tier stays off if cache.key has Method or URI. A change replaces the pods.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// size is the memory for the tier. It is part of pod.resources.limits.memory, as the pages of a tmpfs count there.
	// Range 16Mi to half of that limit, and at most pod.resources.requests.memory. Default a quarter of the limit, or
	// 128Mi without a limit. The default is never more than half of pod.resources.requests.memory or than the indexes
	// leave. A change replaces the pods.
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

	// maxObjectSize is the size above which objects stay on the disks. Range 1Ki to 1Gi, default 8Mi, never more than an
	// eighth of size.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="maxObjectSize: must be from 1Ki to 1Gi"
	MaxObjectSize *resource.Quantity `json:"maxObjectSize,omitempty"`

	// inactive is the time without a request after which an object leaves the memory (inactive of proxy_cache_path). If
	// maxExtraAge is shorter, it applies instead, as the copy is no longer good then. Default 10m.
	// +optional
	// +kubebuilder:default="10m"
	Inactive Duration `json:"inactive,omitempty"`

	// maxExtraAge bounds how much longer an object is served than without the tier. A copy is good for this time after it
	// was made from a fresh object on its disk, or for the object's own lifetime if that is shorter. An object whose
	// lifetime is shorter than 10s, or is only in Expires, is not copied. The first request after the end has the copy
	// renewed; until then, the old copy is served. Objects that nobody requests during maxExtraAge leave the memory. An
	// object that is requested only now and then is therefore served at most twice that time and ten seconds longer, plus
	// the time of its renewal. At least 1s, default 30s.
	// +optional
	// +kubebuilder:default="30s"
	MaxExtraAge Duration `json:"maxExtraAge,omitempty"`
}
