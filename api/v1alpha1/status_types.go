package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CacheNodeStatus is what the operator sees.
type CacheNodeStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of pods there are.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// readyOfReplicas is readyReplicas and the wanted number, as in "2/3".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ReadyOfReplicas string `json:"readyOfReplicas,omitempty"`

	// selector selects the pods; it is what the scale subresource gives to an autoscaler.
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

	// healthyDisks is the number of disks in use over all pods and the number of disks that the spec asks for, as in "5/6".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	HealthyDisks string `json:"healthyDisks,omitempty"`

	// size is the sum of the sizes of the file systems in use over all pods, as the pods' agents measured them. Until an
	// agent has measured one, the size in the spec counts for that disk.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Size string `json:"size,omitempty"`

	// disks says which share of the keys each disk has, and in how many pods it is healthy.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Disks []DiskStatus `json:"disks,omitempty"`

	// tuning says what the operator has chosen where the spec leaves the choice to it, and why.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=512
	Tuning []string `json:"tuning,omitempty"`

	// pods says what each pod runs, as its agent reports.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Pods []PodStatus `json:"pods,omitempty"`

	// keyMovement is what the edit of the disks moves that is being rolled out, or that waits to be acknowledged. Unset
	// when nothing moves.
	// +optional
	KeyMovement *KeyMovement `json:"keyMovement,omitempty"`

	// refusal is the revision that was rolled back, while the spec still asks for it.
	// +optional
	Refusal *Refusal `json:"refusal,omitempty"`

	// conditions are Ready, Accepted, Available, Progressing, Degraded, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DiskStatus is what the operator knows of a disk over all pods.
type DiskStatus struct {
	// name is the disk's name.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Name string `json:"name"`

	// share is the part of the keys that live on the disk, such as 33.34%.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Share string `json:"share"`

	// healthy is in how many pods the disk is healthy.
	// +optional
	Healthy int32 `json:"healthy"`

	// total is how many pods have told.
	// +optional
	Total int32 `json:"total"`

	// fileSystem is how the disk is prepared and mounted and what a hit costs it whose bytes are not in memory, such as "xfs, blocks of
	// 4Ki, read-ahead 128Ki (rw,noatime): a cold hit of 64Ki costs about 4 reads, one of 1Mi 12"; where pods differ, each way
	// with the number of pods.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	FileSystem string `json:"fileSystem,omitempty"`

	// advice is what a hit costs a disk that is prepared like this, and what would make it cheaper. Unset for disks that
	// are well prepared, and for SSD and NVMe.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Advice string `json:"advice,omitempty"`
}

// KeyMovement is what an edit of the disks does to the keys.
type KeyMovement struct {
	// name identifies the movement: a hash of which keys are on which disk before and afterwards. The annotation
	// cachenode.io/acknowledged-key-movement takes it.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`

	// share is the part of the keys that moves, such as 25.03%.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Share string `json:"share"`

	// bytes is what these keys take on the disks of all pods, as far as the agents have told.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Bytes string `json:"bytes,omitempty"`

	// moves says from which disk to which.
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

	// to is the disk that they go to.
	// +required
	// +kubebuilder:validation:MaxLength=16
	To string `json:"to"`

	// share is their part of all keys.
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

	// disks are the disks that are not healthy, and those whose share of the keys is not the plan's for want of another.
	// A disk that is not listed is healthy and has the share in status.disks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Disks []PodDiskStatus `json:"disks,omitempty"`

	// message says what is wrong, if anything: with the agent or nginx, or what keeps the pod from starting, in the words of
	// the scheduler or the kubelet.
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

// Refusal is a revision that a pod did not take.
type Refusal struct {
	// revision is the refused one.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision"`

	// pod is the pod that refused it.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`

	// message is what nginx said.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message"`
}

// Conditions of a CacheNode. Reconciling and Stalled are there for kstatus, which tools such as Flux and kubectl wait
// read: a CacheNode with Stalled is Failed, one with Reconciling is InProgress, otherwise it is Current.
const (
	// ConditionReady is true when every pod is ready and runs what the spec asks for.
	ConditionReady = "Ready"
	// ConditionAccepted is true when the spec is valid and all that it refers to exists. While it is false, the pods go
	// on with what was accepted last.
	ConditionAccepted = "Accepted"
	// ConditionAvailable is true when at least one pod is ready: the Service answers.
	ConditionAvailable = "Available"
	// ConditionProgressing is true while pods are made, replaced or removed.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is true when pods are missing though nothing is being rolled out, a pod refused the
	// configuration, a disk is out of use, an agent does not answer, or the operator cannot write what it should.
	ConditionDegraded = "Degraded"
	// ConditionReconciling is true while the pods do not run what the spec asks for, but will.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when nothing will change until a person changes the spec.
	ConditionStalled = "Stalled"
)

// Reasons of conditions.
const (
	// ReasonReady: every pod is ready and runs what the spec asks for.
	ReasonReady = "Ready"
	// ReasonAccepted: the spec is valid and all that it refers to exists.
	ReasonAccepted = "Accepted"
	// ReasonInvalidSpec: the spec is wrong; the message names the fields and the remedies.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonReferenceNotFound: a Secret, ConfigMap or key that the spec names does not exist yet. It heals by itself.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonInvalidReference: a Secret or ConfigMap is there, but holds no certificates. It heals when it is corrected.
	ReasonInvalidReference = "InvalidReference"
	// ReasonNameTaken: an object that the CacheNode needs exists and belongs to somebody else. It heals within a minute
	// when that object is gone.
	ReasonNameTaken = "NameTaken"
	// ReasonRollingOut: pods are made, replaced or removed.
	ReasonRollingOut = "RollingOut"
	// ReasonRolledOut: every pod runs what the spec asks for.
	ReasonRolledOut = "RolledOut"
	// ReasonPodsReady: at least one pod is ready.
	ReasonPodsReady = "PodsReady"
	// ReasonNoPodReady: no pod is ready.
	ReasonNoPodReady = "NoPodReady"
	// ReasonScaledToZero: the spec asks for no pods.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonPodsNotReady: pods are missing or not ready.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonAsExpected: nothing is wrong.
	ReasonAsExpected = "AsExpected"
	// ReasonConfigRefused: a pod refused the configuration; the others never took it, and all run the one before.
	ReasonConfigRefused = "ConfigRefused"
	// ReasonDiskFailed: a disk of a pod is out of use; its keys are on the pod's other disks.
	ReasonDiskFailed = "DiskFailed"
	// ReasonAgentUnreachable: the agent of a ready pod does not answer.
	ReasonAgentUnreachable = "AgentUnreachable"
	// ReasonKeyMovement: an edit of the disks moves more keys than rollout.maxKeyMovement and waits to be acknowledged.
	ReasonKeyMovement = "KeyMovementNotAcknowledged"
	// ReasonDiskMissing: a disk could not be mounted; a placeholder is in its place.
	ReasonDiskMissing = "DiskMissing"
	// ReasonPathTaken: another volume of a node has the path of a disk, one in it or one around it. It heals when that volume is gone.
	ReasonPathTaken = "PathTaken"
	// ReasonTooManyVolumes: the CacheNodes of the namespace have as many volumes as they may have together.
	ReasonTooManyVolumes = "TooManyVolumes"
	// ReasonReferenceMissing: a Service that is an origin, or the StorageClass of a disk, does not exist. The spec is accepted
	// all the same, as they may come later.
	ReasonReferenceMissing = "ReferenceMissing"
	// ReasonLimitsLowered: the file system of a disk cannot hold the limits that the spec gives it, so the pod runs with
	// lower ones.
	ReasonLimitsLowered = "LimitsLowered"
	// ReasonNoNodeMatches: with one pod on each node, no node is left for any.
	ReasonNoNodeMatches = "NoNodeMatches"
	// ReasonNodeLost: a node is out of service, and its pod waits to be made on another.
	ReasonNodeLost = "NodeLost"
	// ReasonApplyFailed: the API server refused an object of this CacheNode.
	ReasonApplyFailed = "ApplyFailed"
)
