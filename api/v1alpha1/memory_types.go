package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// MemoryTier is a cache in memory in front of the disks: an object that is asked for often is served from it, and never
// waits behind its disk's queue. It is filled from the disks alone, in the background, with whole responses of status 200
// that have a Content-Length; a request that it cannot answer goes to its disk as if it were not there.
type MemoryTier struct {
	// enabled switches the tier on or off. Default: for a new CacheNode on, unless io.mode is Direct by itself, as all caches
	// are in memory anyway; for one that exists what it has been: an upgrade of the operator switches nothing on. It stays off where cache.key has Method or URI. A change makes new pods.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// size is the memory for the tier, part of pod.resources.limits.memory (a tmpfs; its pages count there). Range 16Mi to
	// half of that limit, default a quarter of it, or 128Mi where there is none, but never more than half of
	// pod.resources.requests.memory or than the indexes leave. A change makes new pods.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('16Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Ti')) <= 0",message="size: must be from 16Mi to 16Ti"
	Size *resource.Quantity `json:"size,omitempty"`

	// minUses: an object that its disk is asked for more often than this within about ten seconds is taken into memory
	// (limit_req, in a dry run). Range 1 to 1000, default 4.
	// +optional
	// +kubebuilder:default=4
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MinUses *int32 `json:"minUses,omitempty"`

	// maxObjectSize: larger objects stay on the disks. Range 1Ki to 1Gi, default 8Mi; never more than an eighth of size.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="maxObjectSize: must be from 1Ki to 1Gi"
	MaxObjectSize *resource.Quantity `json:"maxObjectSize,omitempty"`

	// inactive is after how long without a request an object leaves the memory (inactive of proxy_cache_path): never later
	// than maxExtraAge, when its copy is no longer good. Default 10m.
	// +optional
	// +kubebuilder:default="10m"
	Inactive Duration `json:"inactive,omitempty"`

	// maxExtraAge bounds how much longer an object can be served than without the tier: each copy is good for so long, from
	// when it was made of one that was fresh on its disk. The first request after that has it renewed; until that is done,
	// the old one is served. As what nobody asks for during maxExtraAge leaves the memory, no copy becomes much older than
	// twice that. 1s at least, default 30s.
	// +optional
	// +kubebuilder:default="30s"
	MaxExtraAge Duration `json:"maxExtraAge,omitempty"`
}
