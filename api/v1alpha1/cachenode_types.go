package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CacheNode is an HTTP cache on local disks. Its pods run nginx. Each disk has a separate cache and its own share of
// the keys. Unless io.mode is Direct or Workers, each disk also has its own thread pool. So a disk that blocks delays
// only the requests that need this disk. With io.mode Workers, a disk that hangs also stops its pod for a second or
// two.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=cn,categories=all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.readyOfReplicas`
// +kubebuilder:printcolumn:name="Disks",type=string,JSONPath=`.status.healthyDisks`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.configRevision`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be at most 40 lower-case letters, digits and hyphens, begin with a letter and end with a letter or digit: Services and pods are named after it"
type CacheNode struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec CacheNodeSpec `json:"spec"`

	// status is the observed state. Until the operator handles the CacheNode for the first time, observedGeneration is
	// -1, so that kstatus reports InProgress.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status CacheNodeStatus `json:"status,omitempty"`
}

// CacheNodeList is a list of CacheNodes.
//
// +kubebuilder:object:root=true
type CacheNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CacheNode `json:"items"`
}

// CacheNodeSpec is the desired state of a CacheNode.
//
// +kubebuilder:validation:XValidation:rule="!has(self.listen) || !has(self.listen.tls) || !has(self.service) || !has(self.service.port) || !has(self.service.httpsPort) || self.service.port != self.service.httpsPort",message="service.httpsPort: must not be service.port where listen.tls is set",fieldPath=".service.httpsPort"
// +kubebuilder:validation:XValidation:rule="!has(self.cache) || !has(self.cache.slice) || !has(self.headers) || !has(self.headers.response) || !has(self.headers.response.remove) || !self.headers.response.remove.exists(h, h.lowerAscii() == 'set-cookie')",message="headers.response.remove: Set-Cookie cannot be removed with cache.slice: remove one of them",fieldPath=".headers.response.remove"
// +kubebuilder:validation:XValidation:rule="self.disks.all(d, !has(d.threadPool) || !has(d.threadPool.maxQueue) || !has(self.listen) || !has(self.listen.maxConnections) || d.threadPool.maxQueue >= self.listen.maxConnections)",message="disks: threadPool.maxQueue must not be less than listen.maxConnections, or a full queue could break responses off: raise it, or lower listen.maxConnections",fieldPath=".disks"
// +kubebuilder:validation:XValidation:rule="!has(self.origin) || !has(self.cache) || !has(self.cache.key) || 'Host' in self.cache.key || has(self.origin.hostHeader) || (has(self.hosts) && self.hosts.size() == 1 && !self.hosts[0].startsWith('*'))",message="cache.key: without Host, objects of one host would be served for another: add Host, set origin.hostHeader, or list exactly one name in hosts",fieldPath=".cache.key"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryTier) || !has(self.memoryTier.size) || !isQuantity(string(self.memoryTier.size)) || (has(self.memoryTier.enabled) && !self.memoryTier.enabled) || !has(self.pod) || !has(self.pod.resources) || !has(self.pod.resources.limits) || !('memory' in self.pod.resources.limits) || !isQuantity(string(self.pod.resources.limits['memory'])) || quantity(string(self.memoryTier.size)).add(quantity(string(self.memoryTier.size))).compareTo(quantity(string(self.pod.resources.limits['memory']))) <= 0",message="memoryTier.size: is more than half of pod.resources.limits.memory: lower it, or raise the limit",fieldPath=".memoryTier.size"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryTier) || !has(self.memoryTier.size) || !isQuantity(string(self.memoryTier.size)) || (has(self.memoryTier.enabled) && !self.memoryTier.enabled) || !has(self.pod) || !has(self.pod.resources) || !has(self.pod.resources.requests) || !('memory' in self.pod.resources.requests) || !isQuantity(string(self.pod.resources.requests['memory'])) || quantity(string(self.memoryTier.size)).compareTo(quantity(string(self.pod.resources.requests['memory']))) <= 0",message="memoryTier.size: is more than pod.resources.requests.memory, which the node may not have: lower it, or raise the request",fieldPath=".memoryTier.size"
// +kubebuilder:validation:XValidation:rule="!has(self.routing) || !has(self.routing.mode) || self.routing.mode != 'Sharded' || !has(self.listen) || ((!has(self.listen.port) || !(self.listen.port in [8088, 8089])) && (!has(self.listen.tls) || !has(self.listen.tls.port) || !(self.listen.tls.port in [8088, 8089])))",message="listen: ports 8088 and 8089 are for the other pods with routing.mode Sharded: choose another",fieldPath=".listen"
// +kubebuilder:validation:XValidation:rule="!has(self.routing) || !has(self.routing.mode) || self.routing.mode != 'Sharded' || !has(self.gateways) || !has(self.listen) || ((!has(self.listen.port) || !(self.listen.port in [8090, 8091])) && (!has(self.listen.tls) || !has(self.listen.tls.port) || !(self.listen.tls.port in [8090, 8091])))",message="listen: with gateways, ports 8090 and 8091 are for the other pods with routing.mode Sharded: choose another",fieldPath=".listen"
// +kubebuilder:validation:XValidation:rule="has(self.origin) || has(self.gateways)",message="set origin, gateways, or both: otherwise there is nothing to serve"
// +kubebuilder:validation:XValidation:rule="has(self.origin) || !has(self.hosts)",message="hosts: belongs to origin; the hosts of Gateways are in their listeners and routes",fieldPath=".hosts"
// +kubebuilder:validation:XValidation:rule="!has(self.gateways) || !has(self.listen) || ((!has(self.listen.port) || self.listen.port < self.gateways.ports.from || self.listen.port > self.gateways.ports.to) && (!has(self.listen.tls) || !has(self.listen.tls.port) || self.listen.tls.port < self.gateways.ports.from || self.listen.tls.port > self.gateways.ports.to))",message="gateways.ports: must not contain listen.port or listen.tls.port",fieldPath=".gateways.ports"
type CacheNodeSpec struct {
	// replicas is the number of pods. Each pod has its own volume for each disk. With placement.perNode, leave replicas
	// out, because the operator then sets it. Range 0 to 1000, default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// placement says on which nodes the pods run, in addition to pod.nodeSelector and pod.affinity.
	// +optional
	// +kubebuilder:default={}
	Placement Placement `json:"placement,omitempty"`

	// disks are the disks of each pod, 1 to 32, keyed by name. Their order does not matter. Adding or removing a disk
	// moves little more than the minimum number of keys. The operator then replaces the pods one after another, and the
	// objects on their other disks stay cached. The operator deletes the claims of a removed disk.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(d, has(d.weight)) || !self.exists(d, has(d.weight))",message="disks: set weight on every disk or on none: a weight means nothing beside a size"
	// +kubebuilder:validation:XValidation:rule="self.all(d, !has(d.localPath) || self.exists_one(o, has(o.localPath) && (o.localPath.path + '/').startsWith(d.localPath.path + '/')))",message="disks: no localPath.path may be that of another disk, or lie in it"
	Disks []Disk `json:"disks"`

	// persistentVolumeClaimRetentionPolicy says when the claims of the disks are deleted.
	// +optional
	// +kubebuilder:default={}
	PersistentVolumeClaimRetentionPolicy ClaimRetentionPolicy `json:"persistentVolumeClaimRetentionPolicy,omitempty"`

	// origin defines the servers from which the cache fetches objects that it does not have. Without origin, the
	// CacheNode serves only the routes of its Gateways, see gateways.
	// +optional
	Origin Origin `json:"origin,omitzero"`

	// gateways lets Gateways of the Gateway API use the pods and disks. If gateways is unset, no Gateway may use them.
	// +optional
	Gateways *Gateways `json:"gateways,omitempty"`

	// hosts are the names that the cache serves (server_name). A request for any other name gets 421 (Misdirected Request)
	// and reaches neither cache nor origin. "*.example.com" matches every name below example.com. Empty means that any
	// name is served. If cache.key then contains Host, anybody can fill the disks with requests for invented names. At
	// most 64 names.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(h, h.matches('^([*][.])?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$'))",message="hosts: each must be a lower-case DNS name such as cdn.example.com, or *.example.com; no port, scheme or path"
	Hosts []Hostname `json:"hosts,omitempty"`

	// cache defines which responses are cached, under which key and for how long.
	// +optional
	// +kubebuilder:default={}
	Cache Cache `json:"cache,omitempty"`

	// memoryTier keeps the most requested objects in memory, in front of the disks.
	// +optional
	// +kubebuilder:default={}
	MemoryTier MemoryTier `json:"memoryTier,omitzero"`

	// routing says which pod answers a request.
	// +optional
	Routing Routing `json:"routing,omitzero"`

	// purge says how CachePurges are carried out.
	// +optional
	Purge Purge `json:"purge,omitzero"`

	// io tunes how nginx reads and writes cache files.
	// +optional
	// +kubebuilder:default={}
	IO IO `json:"io,omitempty"`

	// listen configures how the pods accept requests from clients, for example the ports and TLS.
	// +optional
	// +kubebuilder:default={}
	Listen Listen `json:"listen,omitempty"`

	// logs says what nginx logs to the container's output.
	// +optional
	// +kubebuilder:default={}
	Logs Logs `json:"logs,omitempty"`

	// headers defines which headers the pods set or remove, in requests to the origin and in responses to clients.
	// +optional
	// +kubebuilder:default={}
	Headers Headers `json:"headers,omitzero"`

	// monitoring configures the measurement of requests.
	// +optional
	// +kubebuilder:default={}
	Monitoring Monitoring `json:"monitoring,omitempty"`

	// rollout says how a new configuration reaches the pods.
	// +optional
	// +kubebuilder:default={}
	Rollout Rollout `json:"rollout,omitempty"`

	// pod configures the pods.
	// +optional
	// +kubebuilder:default={}
	Pod Pod `json:"pod,omitempty"`

	// service is the Service that clients use. It has the CacheNode's name.
	// +optional
	// +kubebuilder:default={}
	Service Service `json:"service,omitempty"`

	// disruption bounds voluntary disruptions, such as the drain of a node, and says what to do when a node or a disk is
	// lost.
	// +optional
	// +kubebuilder:default={}
	Disruption Disruption `json:"disruption,omitempty"`
}

// Placement says on which nodes the pods run.
type Placement struct {
	// perNode runs one pod on each node that pod.nodeSelector, pod.affinity and pod.tolerations allow. The operator then
	// sets spec.replicas to the number of such nodes, through the scale subresource. When a node joins, the operator
	// adds a pod. When a node leaves, the operator removes a pod. At most 1000 nodes. Default false.
	// +optional
	PerNode bool `json:"perNode,omitempty"`
}

// Hostname is a DNS name.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
type Hostname string

// Duration is a time such as "90s", "1h30m" or "500ms". It consists of whole numbers with the units h, m, s and ms,
// as in Gateway API's GEP-2257.
//
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$')",message="must be a duration such as 90s, 1h30m or 500ms: whole numbers with the units h, m, s and ms"
type Duration string

// ClaimRetentionPolicy works like a StatefulSet's persistentVolumeClaimRetentionPolicy, but the operator carries it
// out.
type ClaimRetentionPolicy struct {
	// whenDeleted decides what happens to the claims when the CacheNode is deleted: Delete (default) or Retain. The
	// default is Delete because a cache can be filled again. A forgotten claim, however, would keep others from using its
	// disk.
	// +optional
	// +kubebuilder:default=Delete
	WhenDeleted ClaimRetention `json:"whenDeleted,omitempty"`

	// whenScaled decides what happens to the claims of pods that are removed by scaling down: Retain (default) or Delete.
	// With Retain, a pod that is added again by scaling up still finds its cached objects. With placement.perNode, the
	// claims are always deleted.
	// +optional
	// +kubebuilder:default=Retain
	WhenScaled ClaimRetention `json:"whenScaled,omitempty"`
}

// ClaimRetention is Retain or Delete.
//
// +kubebuilder:validation:Enum=Retain;Delete
type ClaimRetention string

const (
	// RetainClaims keeps claims.
	RetainClaims ClaimRetention = "Retain"
	// DeleteClaims deletes claims.
	DeleteClaims ClaimRetention = "Delete"
)
