package v1alpha1

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
	// configuration, a disk is out of use, or the limit of the namespace leaves out volumes. It is also true when an
	// agent does not answer or the operator fails. docs/reference/conditions.md has all cases.
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
	// ReasonVersionSkew means that the agents of some pods are more than one minor version older or newer than the
	// operator, with which they are not tested. Recreated pods have the operator's.
	ReasonVersionSkew = "VersionSkew"
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
