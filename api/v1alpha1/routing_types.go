package v1alpha1

// Routing says which pod answers a request.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Local' || (!has(self.tls) && !has(self.scope))",message="routing: scope and tls have no meaning with mode Local: set mode to Sharded, or remove them"
type Routing struct {
	// mode is Local or Sharded. With Local, each pod caches every key for itself. With Sharded, the pods share the keys:
	// any pod accepts any request, and the pod that owns the key answers it, through at most one hop. The cache grows with
	// the number of pods, and the origin is asked once for an object. Default Sharded for a new CacheNode with more than
	// one replica, or with placement.perNode. Pods that cached for themselves go on with it until this field is set, and
	// pods that share keys go on sharing them when there are fewer; status.tuning says why.
	// +optional
	Mode RoutingMode `json:"mode,omitempty"`

	// scope says among which pods a key is shared: Cluster (default) or Zone. With Zone, each zone has its own copy of a
	// key, hops stay in the zone, and the Service prefers pods in the client's zone. The zone of a pod is the label
	// topology.kubernetes.io/zone of its node; nodes without it are a zone together. A zone with one pod has no hops.
	// +optional
	Scope RoutingScope `json:"scope,omitempty"`

	// handover is how long a pod or a disk that gets keys fills them from the pod or disk that had them, instead of from
	// the origin. A pod or a disk that is removed stays for so long, and so does a pod whose node is drained. With mode
	// Local it is for disks only. A shorter time counts at once, also for a hand-over that is under way; a longer one from
	// the next on. Range 0s to 24h, default 10m; 0s switches it off.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="handover: must be at most 24h"
	Handover Duration `json:"handover,omitempty"`

	// tls says how pods talk to each other: Mutual (default), by certificates of an authority that the operator makes for
	// the pods of this CacheNode alone, or Off. With Off, only a NetworkPolicy keeps others from reading the cache and
	// from naming a false address or scheme of a client.
	// +optional
	TLS PeerTLS `json:"tls,omitempty"`
}

// RoutingMode is Local or Sharded.
//
// +kubebuilder:validation:Enum=Local;Sharded
type RoutingMode string

// The modes of routing.
const (
	// RoutingLocal serves each request in the pod that it reaches.
	RoutingLocal RoutingMode = "Local"
	// RoutingSharded serves each request in the pod that owns its key.
	RoutingSharded RoutingMode = "Sharded"
)

// RoutingScope is Cluster or Zone.
//
// +kubebuilder:validation:Enum=Cluster;Zone
type RoutingScope string

// The scopes of routing.
const (
	// ScopeCluster has one copy of a key in the whole cluster.
	ScopeCluster RoutingScope = "Cluster"
	// ScopeZone has one copy of a key in each zone.
	ScopeZone RoutingScope = "Zone"
)

// PeerTLS is Mutual or Off.
//
// +kubebuilder:validation:Enum=Mutual;Off
type PeerTLS string

// How pods talk to each other.
const (
	// PeerTLSMutual has both sides prove that they are pods of the CacheNode.
	PeerTLSMutual PeerTLS = "Mutual"
	// PeerTLSOff leaves the connection in plain text.
	PeerTLSOff PeerTLS = "Off"
)
