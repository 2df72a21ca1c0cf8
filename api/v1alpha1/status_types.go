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

	// readyOfReplicas is how many of the wanted pods are ready, and how many are wanted, such as "2/3". Pods that stay
	// only to hand their keys over do not count.
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
	// pod that is not there count once its agent has measured them.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Size string `json:"size,omitempty"`

	// disks says which share of the keys each disk has, and in how many pods it is healthy.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Disks []DiskStatus `json:"disks,omitempty"`

	// tuning says what the operator chose where the spec leaves the choice to it, and why.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=512
	Tuning []string `json:"tuning,omitempty"`

	// routing says which pods own keys. Unset with routing.mode Local.
	// +optional
	Routing *RoutingStatus `json:"routing,omitempty"`

	// pods says what each pod runs, as its agent reports.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Pods []PodStatus `json:"pods,omitempty"`

	// outdatedPods is the number of pods with an agent or an nginx that is older than it should be. The condition Outdated
	// names them.
	// +optional
	OutdatedPods int32 `json:"outdatedPods,omitempty"`

	// keyMovement is what an edit of the disks moves while the edit is rolled out or waits to be acknowledged. Unset if
	// nothing moves.
	// +optional
	KeyMovement *KeyMovement `json:"keyMovement,omitempty"`

	// refusal is the revision that was rolled back, while the spec still asks for it.
	// +optional
	Refusal *Refusal `json:"refusal,omitempty"`

	// listenerCertificate is the certificate of listen.tls, as the operator read it last. Unset without listen.tls.
	// +optional
	ListenerCertificate *CertificateStatus `json:"listenerCertificate,omitempty"`

	// conditions are Ready, Accepted, Available, Progressing, Degraded, Outdated, EvictionsWait, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CertificateStatus says when a certificate is valid: the time that all certificates of its chain have in common.
type CertificateStatus struct {
	// notBefore is when it begins to be valid.
	// +required
	NotBefore metav1.Time `json:"notBefore"`

	// notAfter is when it expires. Degraded says so 14 days before, or when a sixth of its lifetime is left if that is
	// less.
	// +required
	NotAfter metav1.Time `json:"notAfter"`
}

// RoutingStatus says how the pods share the keys.
type RoutingStatus struct {
	// owners is the number of pods that own keys.
	// +required
	Owners int32 `json:"owners"`

	// zones has the number of pods that own keys in each zone, such as "eu-1a=2 eu-1b=1", with scope Zone. The pods of
	// nodes without a zone are under "none".
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Zones string `json:"zones,omitempty"`

	// applied is the number of pods that route by these owners and the number of pods, such as "3/3".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Applied string `json:"applied,omitempty"`

	// handoverUntil is until when pods fill keys from their previous owners. Unset if no keys have moved lately.
	// +optional
	HandoverUntil *metav1.Time `json:"handoverUntil,omitempty"`
}

// DiskStatus is what the operator knows about a disk over all pods.
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

	// fileSystem says how the disk is prepared and mounted, and how many reads a hit costs if its bytes are not in memory.
	// An example is "xfs, blocks of 4Ki, read-ahead 128Ki (rw,noatime): a cold hit of 64Ki costs about 4 reads, one of 1Mi
	// 12". If pods differ, each way is listed with the number of pods.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	FileSystem string `json:"fileSystem,omitempty"`

	// advice says what a hit costs on a disk that is prepared like this, and what would make it cheaper or the cache
	// larger. Unset for disks that are well prepared. SSD and NVMe get no advice on reads.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Advice string `json:"advice,omitempty"`
}

// KeyMovement is the movement of keys that an edit of the disks causes.
type KeyMovement struct {
	// name identifies the movement. It is a hash of which keys are on which disk before and after the edit, and the value
	// for the annotation cachenode.io/acknowledged-key-movement.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`

	// share is the part of the keys that moves, such as 25.03%.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Share string `json:"share"`

	// bytes is the space that these keys take on the disks of all pods, as far as the agents have reported.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Bytes string `json:"bytes,omitempty"`

	// moves lists how many keys move from which disk to which.
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

// PodStatus is what a pod's agent reports.
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

	// outdated says what in the pod is older than it should be. It is empty if nothing is.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Outdated string `json:"outdated,omitempty"`

	// share is the part of all keys that the pod owns, such as 33.34%. Unset with routing.mode Local.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Share string `json:"share,omitempty"`

	// disks are the disks that are not healthy, and those whose share of the keys differs from the plan because another
	// disk is not in use. A disk that is not listed is healthy and has the share in status.disks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Disks []PodDiskStatus `json:"disks,omitempty"`

	// message says what is wrong with the agent or nginx, or what keeps the pod from starting, in the words of the
	// scheduler or the kubelet. It is empty if nothing is wrong.
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

	// reason is why the disk is not healthy, such as IOError, Slow or Full.
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

	// pod is the pod that refused it.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`

	// message is the error of nginx or of the agent.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message"`
}
