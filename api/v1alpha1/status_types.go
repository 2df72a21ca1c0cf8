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

	// size is the sum of the disks' sizes over all wanted pods.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Size string `json:"size,omitempty"`

	// disks says which share of the keys each disk has.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Disks []DiskStatus `json:"disks,omitempty"`

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
	// ConditionDegraded is true when pods are missing though nothing is being rolled out, or the operator cannot write
	// what it should.
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
	// ReasonApplyFailed: the API server refused an object of this CacheNode.
	ReasonApplyFailed = "ApplyFailed"
)
