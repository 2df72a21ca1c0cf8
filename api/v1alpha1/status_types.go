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

// Conditions of a CacheNode. Reconciling and Stalled are for kstatus, which tools such as Flux and kubectl wait read. A
// CacheNode with Stalled is Failed, one with Reconciling is InProgress, any other is Current.
const (
	// ConditionReady is true when every pod is ready and runs what the spec asks for.
	ConditionReady = "Ready"
	// ConditionAccepted is true when the spec is valid and the Secrets and ConfigMaps that it names exist. While it is
	// false, the pods keep what was accepted last.
	ConditionAccepted = "Accepted"
	// ConditionAvailable is true when at least one pod is ready, so that the Service answers.
	ConditionAvailable = "Available"
	// ConditionProgressing is true while pods are created, replaced or removed, or have yet to take a configuration.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is true when pods do not start or are missing although nothing is rolled out, a pod refused the
	// configuration, a disk is out of use, or the limit of the namespace leaves out volumes. It is also true when an agent
	// does not answer or the operator fails.
	// docs/reference/conditions.md has all cases.
	ConditionDegraded = "Degraded"
	// ConditionOutdated is true when a pod has an agent or an nginx that is older than it should be, although the pod
	// works.
	ConditionOutdated = "Outdated"
	// ConditionEvictionsWait is true while the PodDisruptionBudget refuses evictions because pods of cordoned nodes hand
	// their keys over. Its message names the budget and the time.
	ConditionEvictionsWait = "EvictionsWait"
	// ConditionReconciling is true while the pods do not yet run what the spec asks for.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when nothing will change until a person changes the spec.
	ConditionStalled = "Stalled"
)

// Reasons of conditions.
const (
	// ReasonReady means that every pod is ready and runs what the spec asks for.
	ReasonReady = "Ready"
	// ReasonAccepted means that the spec is valid and the Secrets and ConfigMaps that it names exist.
	ReasonAccepted = "Accepted"
	// ReasonInvalidSpec means that the spec is wrong. The message names the fields and the remedies.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonReferenceNotFound means that a Secret, ConfigMap or key that the spec names does not exist yet. The CacheNode
	// recovers when it is created.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonInvalidReference means that a Secret or ConfigMap exists but holds no valid certificates. The CacheNode
	// recovers when it is corrected.
	ReasonInvalidReference = "InvalidReference"
	// ReasonNameTaken means that an object that the CacheNode needs exists and belongs to somebody else. The CacheNode
	// recovers within a minute after that object is gone.
	ReasonNameTaken = "NameTaken"
	// ReasonRollingOut means that pods are created, replaced or removed, or have yet to take a configuration.
	ReasonRollingOut = "RollingOut"
	// ReasonRolledOut means that every pod runs what the spec asks for.
	ReasonRolledOut = "RolledOut"
	// ReasonPodsReady means that at least one pod is ready.
	ReasonPodsReady = "PodsReady"
	// ReasonNoPodReady means that no pod is ready.
	ReasonNoPodReady = "NoPodReady"
	// ReasonScaledToZero means that the spec asks for no pods.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonPodsNotReady means that pods are missing or not ready.
	ReasonPodsNotReady = "PodsNotReady"
	// ReasonAsExpected means that nothing is wrong.
	ReasonAsExpected = "AsExpected"
	// ReasonConfigRefused means that a pod refused the configuration. The other pods never took it, and all run the
	// previous one.
	ReasonConfigRefused = "ConfigRefused"
	// ReasonDiskFailed means that a disk of a pod is out of use and its keys are on the pod's other disks.
	ReasonDiskFailed = "DiskFailed"
	// ReasonAgentUnreachable means that the agent of a ready pod does not answer.
	ReasonAgentUnreachable = "AgentUnreachable"
	// ReasonKeyMovement means that an edit of the disks moves more keys than rollout.maxKeyMovement and waits to be
	// acknowledged.
	ReasonKeyMovement = "KeyMovementNotAcknowledged"
	// ReasonDiskMissing means that a disk could not be mounted and a placeholder is in its place.
	ReasonDiskMissing = "DiskMissing"
	// ReasonPathTaken means that another volume of a node has the path of a disk, a path inside it or a path around it.
	// The CacheNode recovers when that volume is gone.
	ReasonPathTaken = "PathTaken"
	// ReasonTooManyVolumes means that the CacheNodes of the namespace have as many volumes as they may have together.
	ReasonTooManyVolumes = "TooManyVolumes"
	// ReasonReferenceMissing means that an origin Service or the StorageClass of a disk does not exist. The spec is
	// accepted all the same, as it may be created later.
	ReasonReferenceMissing = "ReferenceMissing"
	// ReasonAgentTooOld means that the agents of some pods do not know something that the spec asks for. Recreated pods
	// have a newer agent.
	ReasonAgentTooOld = "AgentTooOld"
	// ReasonSecurityFix means that the agents of some pods lack a fix of a security hole. Recreated pods have it.
	ReasonSecurityFix = "SecurityFix"
	// ReasonNginxTooOld means that some pods run a version of nginx below 1.30.4, which has security holes.
	ReasonNginxTooOld = "NginxTooOld"
	// ReasonAgentOutdated means that the agents of some pods are older than the operator, and still have a fault.
	// Recreated pods have a newer agent.
	ReasonAgentOutdated = "AgentOutdated"
	// ReasonHandingOver means that pods of cordoned nodes hand their keys over, and may not be evicted until then.
	// ReasonHandedOver means that they have.
	ReasonHandingOver = "HandingOver"
	ReasonHandedOver  = "HandedOver"
	// ReasonCordonFirst means that the budget allows evictions only after the cordon of a node, and a hand-over.
	ReasonCordonFirst = "CordonFirst"
	// ReasonBudgetOpen means that the budget allows evictions as disruption.maxUnavailable says.
	ReasonBudgetOpen = "BudgetOpen"
	// ReasonCertificateExpires means that the certificate of listen.tls expires soon. ReasonCertificateExpired means that
	// it has expired.
	ReasonCertificateExpires = "CertificateExpires"
	ReasonCertificateExpired = "CertificateExpired"
	// ReasonLimitsLowered means that the file system of a disk cannot hold the limits that the spec gives it, so the pod
	// runs with lower limits.
	ReasonLimitsLowered = "LimitsLowered"
	// ReasonNoNodeMatches means that placement.perNode is set and no node matches.
	ReasonNoNodeMatches = "NoNodeMatches"
	// ReasonNodeLost means that a node is out of service and its pod waits to be recreated on another node.
	ReasonNodeLost = "NodeLost"
	// ReasonApplyFailed means that the operator lacks a permission, or every pass has failed for 15 seconds.
	ReasonApplyFailed = "ApplyFailed"
)
