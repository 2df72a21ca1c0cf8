package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Monitoring says what is measured.
type Monitoring struct {
	// requestSampling is the share of requests, in percent, that nginx reports to the agent for metrics and hit ratios. A
	// request that bypassed its disk is always reported. In test/bench/agent, with small HITs at full speed, 1 costs
	// nothing above noise, 10 a few percent of nginx's throughput, and 100 about a sixth. Range 0 to 100, default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RequestSampling *int32 `json:"requestSampling,omitempty"`
}

// Rollout says how a new configuration reaches the pods. A pod takes it in place, without a restart, if nginx can.
type Rollout struct {
	// canary is the first pod to take a new configuration.
	// +optional
	// +kubebuilder:default={}
	Canary Canary `json:"canary,omitempty"`

	// maxUnavailable is the number of pods that may take a new configuration at once after the canary, or a percentage of
	// all pods, rounded up. A reload interrupts no client, so it is no disruption. At least 1, default 50%.
	// +optional
	// +kubebuilder:default="50%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 1 && self <= 1000) : string(self).matches('^([1-9]|[1-9][0-9]|100)%$')",message="maxUnavailable: must be a number from 1 to 1000 or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxKeyMovement is the share of the keys, in percent, that an edit of the disks may move from one disk to another.
	// Keys that move are MISSes at first. An edit that moves more waits and changes nothing until the annotation
	// cachenode.io/acknowledged-key-movement on the CacheNode names the movement. The name is in status.keyMovement and in
	// the output of "kubectl cachenode plan". Range 0 to 100. Unset means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxKeyMovement *int32 `json:"maxKeyMovement,omitempty"`

	// workerShutdownTimeout is how long nginx's old workers may finish their responses after a reload. Then their
	// connections are closed (worker_shutdown_timeout). Old workers take memory, so a long time is costly with many edits
	// in a row. Range 1s to 24h, default 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || (duration(self) >= duration('1s') && duration(self) <= duration('24h'))",message="workerShutdownTimeout: must be from 1s to 24h"
	WorkerShutdownTimeout Duration `json:"workerShutdownTimeout,omitempty"`
}

// Canary is the first pod of a rollout.
type Canary struct {
	// seconds is how long the first pod runs a new configuration before the others take it. Range 0 to 86400, default 0.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	Seconds *int32 `json:"seconds,omitempty"`
}

// Logs says what nginx logs to the container's output.
type Logs struct {
	// access says where nginx writes a line for each request: None (default, as in the benchmark of NGINX's article on
	// thread pools) or Stdout.
	// +optional
	// +kubebuilder:default=None
	// +kubebuilder:validation:Enum=None;Stdout
	Access string `json:"access,omitempty"`

	// format is the format of the lines that access writes: Combined (default), nginx's own, or JSON, an object in each
	// line. docs/reference/logs.md lists its fields.
	// +optional
	// +kubebuilder:default=Combined
	// +kubebuilder:validation:Enum=Combined;JSON
	Format string `json:"format,omitempty"`

	// level is the lowest severity that goes to the error log: Debug, Info, Notice, Warn (default), Error or Crit.
	// +optional
	// +kubebuilder:default=Warn
	// +kubebuilder:validation:Enum=Debug;Info;Notice;Warn;Error;Crit
	Level string `json:"level,omitempty"`
}

// DefaultImage is the nginx image of an operator that is given none: the oldest supported version. A release gives its
// operator an image by digest.
const DefaultImage = "docker.io/library/nginx:1.30.4"

// Pod configures the pods. A change of any field replaces them.
type Pod struct {
	// image is the nginx image, version 1.30.4 or newer (1.31.3 of the mainline): older ones have security holes. It must
	// have nginx and sh in its path and, with a memory tier, nginx's auth_request module, as the stock images have. With
	// ngx_http_js_module, which the -slim variants lack, requests for what may not be stored do not wait for each other.
	// The operator sets command, user, paths and signals. At most 512 characters. Unset, pods get the operator's
	// (--nginx-image, the chart's nginxImage). Another one there replaces no pods. They get it with the next change of
	// the pod template, such as by the annotation cachenode.io/restart; pods that are evicted, deleted or added until then
	// get what the others have. docker.io/library/nginx:1.30, which CRDs from before 0.2.0 store, counts as unset.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// imagePullPolicy is Always, IfNotPresent or Never. Unset means the cluster's default.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are Secrets of this namespace for the image's registry. At most 8.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// resources are the resources of the nginx container. The number of nginx workers is the CPU limit, rounded up, or the
	// number of cores without a limit. If neither requests nor limits are given, the requests are 100m CPU, and memory for
	// the keys zones, the memory tier and 64Mi.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`

	// agentResources are the resources of the agent's container. If neither requests nor limits are given, the requests
	// are 10m CPU, and 52Mi memory and 6Mi for each disk. The memory limit is then 176Mi and 56Mi for each disk.
	// +optional
	AgentResources corev1.ResourceRequirements `json:"agentResources,omitempty"`

	// nodeSelector picks nodes by label. At most 64 entries.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations let the pods run on tainted nodes. At most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity attracts the pods to nodes and to other pods, or keeps them away. Pods cannot be required to be apart from
	// those of other namespaces, unless the operator allows it (its flag --anti-affinity-namespaces, default none).
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints spread the pods. By default, they spread over nodes as far as possible. A constraint
	// without a labelSelector gets the selector of the pods. At most 8.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the pods' PriorityClass. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// terminationGracePeriodSeconds is how long a pod that stops may finish its responses. The pod leaves the Service in
	// the first 5 seconds. Range 10 to 3600, default 60.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// labels are added to the pods. The operator's own labels cannot be overridden. At most 64.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('cachenode.io/') && !k.startsWith('app.kubernetes.io/'))",message="labels: those of cachenode.io and app.kubernetes.io are the operator's own: use others"
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are added to the pods. The operator must allow their keys (its flag --allowed-pod-annotations, default
	// none). At most 64.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('cachenode.io/'))",message="annotations: those of cachenode.io are the operator's own: use others"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Service is the Service that clients use.
//
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",message="loadBalancerClass: only for type LoadBalancer",fieldPath=".loadBalancerClass"
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || self.type != 'ClusterIP'",message="externalTrafficPolicy: only for types NodePort and LoadBalancer",fieldPath=".externalTrafficPolicy"
type Service struct {
	// type is ClusterIP (default), NodePort or LoadBalancer.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// port is the Service's port. Range 1 to 65535, default 80.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// httpsPort is the Service's port for TLS, if listen.tls is set. Range 1 to 65535, default 443.
	// +optional
	// +kubebuilder:default=443
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	HTTPSPort *int32 `json:"httpsPort,omitempty"`

	// externalTrafficPolicy is Cluster or Local. Unset means the cluster's default.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy *corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`

	// loadBalancerClass selects the load balancer's implementation. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	LoadBalancerClass *string `json:"loadBalancerClass,omitempty"`

	// annotations are added to the Service. The operator must allow their keys (its flag --allowed-service-annotations,
	// default none). At most 64.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('cachenode.io/'))",message="annotations: those of cachenode.io are the operator's own: use others"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Disruption becomes a PodDisruptionBudget, and bounds what the operator itself does to pods.
type Disruption struct {
	// maxUnavailable is how many pods may be down at once by voluntary disruptions, as a number or a percentage such as
	// "25%". 0 forbids voluntary disruptions, and so also the replacement of pods. While pods share keys, an eviction also
	// needs a cordon of the node and the hand-over (routing.handover). Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 0 && self <= 1000) : string(self).matches('^([0-9]|[1-9][0-9]|100)%$')",message="maxUnavailable: must be a number from 0 to 1000 or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// nodeLossAfter is how long a node may be out of service (its condition Ready is not True) before its pods and their
	// claims are deleted. The pods then start on other nodes with empty disks. A node is lost at once if its Node object
	// is gone or a person has tainted it with node.kubernetes.io/out-of-service. The operator never deletes more pods at
	// once than maxUnavailable. It deletes none while more than half of the nodes that could serve this CacheNode are out
	// of service. It deletes no pod for which no other node is free, unless the Node object is gone. Range 10s to 24h,
	// default 5m. 0s switches it off.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) == duration('0s') || (duration(self) >= duration('10s') && duration(self) <= duration('24h'))",message="nodeLossAfter: must be from 10s to 24h, or 0s to switch it off"
	NodeLossAfter Duration `json:"nodeLossAfter,omitempty"`

	// diskLossAfter is how long a pod may fail to start because the path of a disk is gone or its device is dead. Then the
	// pod starts without the disk, and a placeholder takes the disk's place until the disk is back. Range 10s to 24h,
	// default 1m. 0s switches it off, and the pod waits.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) == duration('0s') || (duration(self) >= duration('10s') && duration(self) <= duration('24h'))",message="diskLossAfter: must be from 10s to 24h, or 0s to switch it off"
	DiskLossAfter Duration `json:"diskLossAfter,omitempty"`
}
