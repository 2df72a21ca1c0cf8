package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CacheNodeStatus is the observed state of a CacheNode.
type CacheNodeStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of existing pods.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// readyOfReplicas is the number of wanted pods that are ready and the number of wanted pods, such as "2/3". Pods
	// that stay only to hand their keys over do not count.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ReadyOfReplicas string `json:"readyOfReplicas,omitempty"`

	// selector selects the pods. The scale subresource gives it to an autoscaler.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// configRevision is the revision of nginx's configuration that the spec asks for.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ConfigRevision string `json:"configRevision,omitempty"`

	// diskCount is the number of disks of each pod.
	// +optional
	DiskCount int32 `json:"diskCount,omitempty"`

	// healthyDisks is the number of disks in use over all pods and the number that the spec asks for, such as "5/6".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	HealthyDisks string `json:"healthyDisks,omitempty"`

	// size is the sum of the sizes of the file systems in use over all pods, as the agents measured them. The disks of a
	// missing pod do not count until the pod runs and its agent has measured them.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Size string `json:"size,omitempty"`

	// disks shows, for each disk, its share of the keys and the number of pods in which it is healthy.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Disks []DiskStatus `json:"disks,omitempty"`

	// tuning lists the values that the operator chose for fields that the spec leaves open, with the reasons.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=512
	Tuning []string `json:"tuning,omitempty"`

	// routing shows how many pods own keys, and when a hand-over ends. Unset with routing.mode Local.
	// +optional
	Routing *RoutingStatus `json:"routing,omitempty"`

	// pods says what each pod runs, as its agent reports.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Pods []PodStatus `json:"pods,omitempty"`

	// outdatedPods is the number of pods with an agent or an nginx that is too old, or with an agent that is too new.
	// The condition Outdated names these pods.
	// +optional
	OutdatedPods int32 `json:"outdatedPods,omitempty"`

	// keyMovement shows how many keys an edit of the disks moves, while the edit is rolled out or waits to be
	// acknowledged. Unset if nothing moves.
	// +optional
	KeyMovement *KeyMovement `json:"keyMovement,omitempty"`

	// refusal is the refused revision that was rolled back. Unset if the spec does not ask for this revision any more.
	// +optional
	Refusal *Refusal `json:"refusal,omitempty"`

	// listenerCertificate describes the certificate of listen.tls that the operator read last. Unset without listen.tls.
	// +optional
	ListenerCertificate *CertificateStatus `json:"listenerCertificate,omitempty"`

	// conditions are Ready, Accepted, Available, Progressing, Degraded, Outdated, EvictionsWait, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CertificateStatus shows the time during which all certificates of a chain are valid.
type CertificateStatus struct {
	// notBefore is the time at which the chain becomes valid.
	// +required
	NotBefore metav1.Time `json:"notBefore"`

	// notAfter is the time at which the chain expires. The condition Degraded warns during the last 14 days before this
	// time, or during the last sixth of the lifetime if that is shorter. +required
	NotAfter metav1.Time `json:"notAfter"`
}

// RoutingStatus says how the pods share the keys.
type RoutingStatus struct {
	// owners is the number of pods that own keys.
	// +required
	Owners int32 `json:"owners"`

	// zones is the number of pods that own keys in each zone, such as "eu-1a=2 eu-1b=1", with scope Zone. Pods on nodes
	// without a zone count under the name "none".
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Zones string `json:"zones,omitempty"`

	// applied is the number of pods that already route by the current owners and the number of all pods, such as "3/3".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Applied string `json:"applied,omitempty"`

	// handoverUntil is the time at which the hand-over ends. Until then, pods fetch requested objects of their new keys
	// from the previous owners. Unset if no hand-over is under way.
	// +optional
	HandoverUntil *metav1.Time `json:"handoverUntil,omitempty"`
}

// DiskStatus describes a disk as the operator observes it in all pods.
type DiskStatus struct {
	// name is the disk's name.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Name string `json:"name"`

	// share is the part of the keys that live on the disk, such as 33.34%.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Share string `json:"share"`

	// healthy is the number of pods in which the disk is healthy.
	// +optional
	Healthy int32 `json:"healthy"`

	// total is the number of pods that have reported the disk.
	// +optional
	Total int32 `json:"total"`

	// fileSystem describes how the disk is formatted and mounted, and how many reads a hit costs if the object is not in
	// memory. An example is "xfs, blocks of 4Ki, read-ahead 128Ki (rw,noatime): a cold hit costs about 4 reads for 64Ki
	// and 12 for 1Mi". If the disk differs between pods, each variant is listed with the number of its pods.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	FileSystem string `json:"fileSystem,omitempty"`

	// advice shows what a hit costs on the disk with its present format and mount options. It also names the changes that
	// would make hits cheaper or the cache larger. Unset for disks that are well prepared. For SSD and NVMe, there is no
	// advice about reads.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Advice string `json:"advice,omitempty"`
}

// KeyMovement is the movement of keys that an edit of the disks causes.
type KeyMovement struct {
	// name identifies the movement. It is a hash of the assignment of keys to disks before and after the edit. The
	// annotation cachenode.io/acknowledged-key-movement takes this name as its value.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`

	// share is the part of the keys that moves, such as 25.03%.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Share string `json:"share"`

	// bytes is the space that the objects of the moved keys take on the disks of all pods, as far as the agents have
	// reported it.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Bytes string `json:"bytes,omitempty"`

	// moves lists the pairs of disks between which keys move, with the share of the keys that moves.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Moves []KeyMove `json:"moves,omitempty"`
}

// KeyMove is the part of a movement between two disks.
type KeyMove struct {
	// from is the disk that the keys leave.
	// +required
	// +kubebuilder:validation:MaxLength=16
	From string `json:"from"`

	// to is the disk that the keys go to.
	// +required
	// +kubebuilder:validation:MaxLength=16
	To string `json:"to"`

	// share is the part of all keys that moves between these disks.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Share string `json:"share"`
}

// PodStatus describes a pod. Most fields come from the report of the pod's agent.
type PodStatus struct {
	// name is the pod's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// node is the node that the pod is on.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`

	// revision is the revision of the configuration that nginx runs.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`

	// nginxVersion is the version of the nginx that the pod runs.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	NginxVersion string `json:"nginxVersion,omitempty"`

	// outdated names the parts of the pod that are too old, or an agent that is too new. It is empty if there is no such
	// part.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Outdated string `json:"outdated,omitempty"`

	// share is the part of all keys that the pod owns, such as 33.34%. Unset with routing.mode Local.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Share string `json:"share,omitempty"`

	// disks lists the disks that are not healthy. It also lists the disks whose share of the keys differs from the plan
	// because another disk is not in use. A disk that is not listed is healthy and has the share in status.disks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Disks []PodDiskStatus `json:"disks,omitempty"`

	// message says what is wrong with the agent or nginx, or what keeps the pod from starting. In the second case, it
	// contains the words of the scheduler or the kubelet. If nothing is wrong, message says why the pod has no keys, for
	// example after a hand-over; otherwise, it is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// PodDiskStatus is a disk of a pod.
type PodDiskStatus struct {
	// name is the disk's name.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Name string `json:"name"`

	// state is Healthy, Failed, Drained or Starting.
	// +required
	// +kubebuilder:validation:MaxLength=16
	State string `json:"state"`

	// reason is the reason why the disk is not healthy, such as IOError, Slow or Full.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Reason string `json:"reason,omitempty"`

	// share is the part of the keys that the disk has in this pod.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Share string `json:"share,omitempty"`

	// message says what the agent saw.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Refusal is a revision that a pod refused.
type Refusal struct {
	// revision is the refused revision.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision"`

	// pod is the pod that refused the revision.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`

	// message is the error of nginx or of the agent.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message"`
}
