package v1alpha1

// Routing says which pod answers a request.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'Local' || (!has(self.tls) && !has(self.scope))",message="routing: scope and tls have no meaning with mode Local: set mode to Sharded, or remove them"
type Routing struct {
	// mode is Local or Sharded. With Local, each pod caches every key for itself. With Sharded, the pods share the keys.
	// Any pod accepts any request, and the pod that owns the key answers it, through at most one hop. The size of the
	// cache then grows with the number of pods. The origin gets one request for an object, not one request from each pod.
	// Default Sharded for a new CacheNode with more than one replica, or with placement.perNode. A CacheNode whose several
	// pods already run with Local keeps this mode until you set mode, scope or tls. A CacheNode whose pods already share
	// keys keeps Sharded, even if the number of pods falls. status.tuning shows the mode and the reason.
	// +optional
	Mode RoutingMode `json:"mode,omitempty"`

	// scope defines which pods share the keys: all pods (Cluster, the default), or the pods of each zone (Zone). With
	// Zone, each zone has its own copy of a key, hops stay in the zone, and the Service prefers pods in the client's
	// zone. The zone of a pod is the label topology.kubernetes.io/zone of its node; all nodes without this label form
	// one zone. A zone with one pod has no hops.
	// +optional
	Scope RoutingScope `json:"scope,omitempty"`

	// handover is the duration of a hand-over. During a hand-over, a pod or disk that gets keys fetches requested
	// objects from the previous pod or disk of these keys, not from the origin. A pod or disk that is removed stays for
	// this time, and so does a pod whose node is drained. With mode Local, handover applies only to disks. A shorter
	// time applies at once, even to a hand-over that is under way. A longer time applies from the next hand-over on.
	// Range 0s to 24h, default 10m. With 0s, there is no hand-over.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="handover: must be at most 24h"
	Handover Duration `json:"handover,omitempty"`

	// tls decides how pods connect to each other: Mutual (default) or Off. With Mutual, both sides use certificates of an
	// authority that the operator creates only for the pods of this CacheNode. With Off, only a NetworkPolicy keeps others
	// from reading the cache, and from sending requests with a forged client address or scheme.
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
	// ScopeCluster means that each key has one owner in the whole cluster.
	ScopeCluster RoutingScope = "Cluster"
	// ScopeZone means that each key has one owner in each zone.
	ScopeZone RoutingScope = "Zone"
)

// PeerTLS is Mutual or Off.
//
// +kubebuilder:validation:Enum=Mutual;Off
type PeerTLS string

// How pods talk to each other.
const (
	// PeerTLSMutual makes both sides of a connection prove that they are pods of the CacheNode.
	PeerTLSMutual PeerTLS = "Mutual"
	// PeerTLSOff leaves the connection in plain text.
	PeerTLSOff PeerTLS = "Off"
)
