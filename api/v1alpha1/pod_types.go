package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Monitoring configures the measurement of requests.
type Monitoring struct {
	// requestSampling is the share of requests, in percent, that nginx reports to the agent for metrics and hit ratios.
	// A request that bypassed its disk is always reported. In the benchmark test/bench/agent, with small HITs at full
	// speed, the value 1 costs no measurable throughput of nginx. The value 10 costs a few percent of the throughput,
	// and 100 costs about a sixth. Range 0 to 100, default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RequestSampling *int32 `json:"requestSampling,omitempty"`
}

// Rollout says how a new configuration reaches the pods. If possible, a pod takes the configuration by a reload of
// nginx, without a restart.
type Rollout struct {
	// canary is the first pod to take a new configuration.
	// +optional
	// +kubebuilder:default={}
	Canary Canary `json:"canary,omitempty"`

	// maxUnavailable is the number of pods that may take a new configuration at the same time, after the canary. It is a
	// number, or a percentage of all pods, rounded up. A reload interrupts no client, so it does not count as a
	// disruption. At least 1, default 50%.
	// +optional
	// +kubebuilder:default="50%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 1 && self <= 1000) : string(self).matches('^([1-9]|[1-9][0-9]|100)%$')",message="maxUnavailable: must be a number from 1 to 1000 or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxKeyMovement is the share of the keys, in percent, that an edit of the disks may move from one disk to another.
	// Requests for a moved key are MISSes until the new disk has stored the object. An edit that would move more keys
	// waits, and changes nothing until the annotation cachenode.io/acknowledged-key-movement on the CacheNode names the
	// movement. The name is in status.keyMovement and in the output of "kubectl cachenode plan". Range 0 to 100. Unset
	// means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxKeyMovement *int32 `json:"maxKeyMovement,omitempty"`

	// workerShutdownTimeout is the time that nginx's old workers have to finish their responses after a reload. After
	// this time, nginx closes their connections (worker_shutdown_timeout). Old workers take memory, so a long time costs
	// much memory if many edits follow each other. Range 1s to 24h, default 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || (duration(self) >= duration('1s') && duration(self) <= duration('24h'))",message="workerShutdownTimeout: must be from 1s to 24h"
	WorkerShutdownTimeout Duration `json:"workerShutdownTimeout,omitempty"`
}

// Canary is the first pod of a rollout.
type Canary struct {
	// seconds is the time for which only the first pod runs a new configuration, before the other pods take it. Range 0 to
	// 86400, default 0.
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

	// format is the format of the access log: Combined (default), which is nginx's own format, or JSON, with one object
	// in each line. docs/reference/logs.md lists the fields of these objects.
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

// DefaultImage is the nginx image that the operator uses if its flag --nginx-image is not set: the oldest supported
// version. A release sets this flag to an image with a digest.
const DefaultImage = "docker.io/library/nginx:1.30.4"

// Pod configures the pods. A change of any field replaces the pods.
type Pod struct {
	// image is the nginx image. It must contain nginx 1.30.4 or newer (1.31.3 or newer in the mainline), because older
	// versions have security holes. It must have nginx and sh in its path. With a memory tier, it also needs nginx's
	// auth_request module, which the stock images contain. With nginx's ngx_http_js_module, requests for objects that
	// may not be stored do not wait for each other. The -slim variants lack ngx_http_js_module. The operator sets
	// command, user, paths and signals. At most 512 characters. If image is unset, pods get the operator's image
	// (--nginx-image, the chart's nginxImage). A change of the operator's image replaces no pods. The pods get the new
	// image with the next change of the pod template, for example by the annotation cachenode.io/restart. Pods that are
	// evicted, deleted or added before that change get the same image as the other pods. The value
	// docker.io/library/nginx:1.30, which CRDs from before 0.2.0 stored as the default, counts as unset.
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

	// resources are the resources of the nginx container. The number of nginx workers is the CPU limit, rounded up, or,
	// without a CPU limit, the number of cores. With io.mode Workers, io.workersPerCPU multiplies this number. If
	// neither requests nor limits are set, the requests are 100m CPU, and the memory of the keys zones and of the memory
	// tier plus 64Mi.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`

	// agentResources are the resources of the agent's container. If neither requests nor limits are set, the requests
	// are 10m CPU, and 52Mi of memory plus 6Mi for each disk. The memory limit is then 176Mi plus 56Mi for each disk.
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

	// affinity attracts the pods to nodes and to other pods, or keeps them away. A required anti-affinity to pods of
	// other namespaces is not accepted, unless the operator allows these namespaces (its flag
	// --anti-affinity-namespaces, default none).
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints spread the pods. By default, the scheduler spreads the pods evenly over nodes as far as
	// possible. A constraint without a labelSelector gets the selector of the pods. At most 8.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the pods' PriorityClass. At most 253 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// terminationGracePeriodSeconds is the time that a stopping pod has to finish its responses. In the first 5 seconds
	// of this time, the Service stops sending requests to the pod. Range 10 to 3600, default 60.
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

// Disruption becomes a PodDisruptionBudget. It also limits what the operator itself does to pods.
type Disruption struct {
	// maxUnavailable is the number of pods that may be down at the same time because of voluntary disruptions, or a
	// percentage such as "25%". 0 forbids voluntary disruptions, including the replacement of pods by the operator.
	// While pods share keys, evictions are allowed only after a node is cordoned and its pods have handed their keys
	// over (routing.handover). Default 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 0 && self <= 1000) : string(self).matches('^([0-9]|[1-9][0-9]|100)%$')",message="maxUnavailable: must be a number from 0 to 1000 or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// nodeLossAfter is the time for which a node may be out of service before the operator deletes the node's pods and
	// their claims. A node is out of service if its condition Ready is not True. The pods then start on other nodes with
	// empty disks. A node is lost at once if its Node object is gone or a person has tainted it with
	// node.kubernetes.io/out-of-service. The operator never deletes more pods at once than maxUnavailable. It deletes no
	// pods while more than half of the nodes that could serve this CacheNode are out of service. If no other node is
	// free for a pod, the operator does not delete the pod, unless the Node object is gone. Range 10s to 24h, default
	// 5m. 0s means that no node counts as lost.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) == duration('0s') || (duration(self) >= duration('10s') && duration(self) <= duration('24h'))",message="nodeLossAfter: must be from 10s to 24h, or 0s to switch it off"
	NodeLossAfter Duration `json:"nodeLossAfter,omitempty"`

	// diskLossAfter is the time for which a pod may fail to start because the path of a disk is gone or the disk's
	// device is dead. After this time, the pod starts without the disk, and a placeholder takes the disk's place until
	// the disk is back. Range 10s to 24h, default 1m. With 0s, the pod waits for the disk without a limit.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) == duration('0s') || (duration(self) >= duration('10s') && duration(self) <= duration('24h'))",message="diskLossAfter: must be from 10s to 24h, or 0s to switch it off"
	DiskLossAfter Duration `json:"diskLossAfter,omitempty"`
}
