package v1alpha1

// Conditions of a CacheNode. Reconciling and Stalled are for tools that read kstatus, such as Flux and kubectl wait.
// For these tools, a CacheNode is Failed while Stalled is true, InProgress while Reconciling is true, and Current
// otherwise.
const (
	// ConditionReady is true when every pod is ready and runs what the spec asks for.
	ConditionReady = "Ready"
	// ConditionAccepted is true when the spec is valid and the Secrets and ConfigMaps that it names exist. While it is
	// false, the pods keep running with the spec that was accepted last.
	ConditionAccepted = "Accepted"
	// ConditionAvailable is true when at least one pod is ready, so that the Service answers.
	ConditionAvailable = "Available"
	// ConditionProgressing is true while pods are created, replaced or removed, or do not run the new configuration yet.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is true when a part of the CacheNode has a fault. For example, pods do not start or are missing
	// although nothing is rolled out, a pod refused the configuration, or a disk is out of use. Other faults are volumes
	// that are missing because of the namespace's limit, an agent that does not answer, and an operator that fails.
	// docs/reference/conditions.md lists all cases.
	ConditionDegraded = "Degraded"
	// ConditionOutdated is true when a pod has an agent or an nginx that is too old, or an agent that is too new. Such a
	// pod still works.
	ConditionOutdated = "Outdated"
	// ConditionEvictionsWait is true while the PodDisruptionBudget refuses evictions because pods of cordoned nodes hand
	// their keys over to other pods. The message names the budget, and the time until which the budget refuses evictions.
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
	// ReasonReferenceNotFound means that a Secret, ConfigMap or key that the spec names does not exist yet. The
	// CacheNode recovers when the missing object or key is created.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonInvalidReference means that a Secret or ConfigMap exists but holds no valid certificates. The CacheNode
	// recovers when the content of this object is corrected.
	ReasonInvalidReference = "InvalidReference"
	// ReasonNameTaken means that an object that the CacheNode needs exists and belongs to somebody else. The CacheNode
	// recovers within a minute after the deletion of that object.
	ReasonNameTaken = "NameTaken"
	// ReasonRollingOut means that pods are created, replaced or removed, or do not run the new configuration yet.
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
	// ReasonConfigRefused means that a pod refused the configuration. No further pod takes this configuration, and all
	// pods return to the previous configuration.
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
	// ReasonPathTaken means that another volume of a node uses the path of a disk, a path inside this path, or a parent
	// of this path. The CacheNode recovers when that volume is gone.
	ReasonPathTaken = "PathTaken"
	// ReasonTooManyVolumes means that the CacheNode needs more volumes than the limit of the namespace allows. All
	// CacheNodes of the namespace share this limit.
	ReasonTooManyVolumes = "TooManyVolumes"
	// ReasonReferenceMissing means that an origin Service or the StorageClass of a disk does not exist. The spec is
	// accepted nevertheless, because the missing object may be created later.
	ReasonReferenceMissing = "ReferenceMissing"
	// ReasonAgentTooOld means that the agents of some pods are too old for a feature that the spec asks for. Recreated
	// pods have a newer agent.
	ReasonAgentTooOld = "AgentTooOld"
	// ReasonSecurityFix means that the agents of some pods lack a fix of a security hole. Recreated pods have an agent
	// with the fix.
	ReasonSecurityFix = "SecurityFix"
	// ReasonNginxTooOld means that some pods run a version of nginx with known security holes: below 1.30.4, or below
	// 1.31.3 in the mainline branch 1.31.
	ReasonNginxTooOld = "NginxTooOld"
	// ReasonVersionSkew means that the agents of some pods are more than one minor version older or newer than the
	// operator. Such agents are not tested with this operator. Recreated pods have an agent of the operator's version.
	ReasonVersionSkew = "VersionSkew"
	// ReasonAgentOutdated means that the agents of some pods are older than the operator, and have a fault that newer
	// agents do not have. Recreated pods have a newer agent.
	ReasonAgentOutdated = "AgentOutdated"
	// ReasonHandingOver means that pods of cordoned nodes hand their keys over, and may not be evicted before the end of
	// the hand-over. ReasonHandedOver means that these pods have handed their keys over.
	ReasonHandingOver = "HandingOver"
	ReasonHandedOver  = "HandedOver"
	// ReasonCordonFirst means that the PodDisruptionBudget allows evictions only after a node is cordoned and its pods
	// have handed their keys over.
	ReasonCordonFirst = "CordonFirst"
	// ReasonBudgetOpen means that the PodDisruptionBudget allows evictions within disruption.maxUnavailable.
	ReasonBudgetOpen = "BudgetOpen"
	// ReasonCertificateExpires means that the certificate of listen.tls expires soon. ReasonCertificateExpired means that
	// it has expired.
	ReasonCertificateExpires = "CertificateExpires"
	ReasonCertificateExpired = "CertificateExpired"
	// ReasonLimitsLowered means that the file system of a disk is too small for the limits in the spec, so the pod runs
	// with lower limits.
	ReasonLimitsLowered = "LimitsLowered"
	// ReasonNoNodeMatches means that placement.perNode is set and no node matches.
	ReasonNoNodeMatches = "NoNodeMatches"
	// ReasonNodeLost means that a node is out of service and its pod waits to be recreated on another node.
	ReasonNodeLost = "NodeLost"
	// ReasonApplyFailed means that the operator lacks a permission, or that every pass has failed for 15 seconds.
	// Another cause is that the operator's informer cache has lagged behind the operator's own writes for two minutes.
	ReasonApplyFailed = "ApplyFailed"
)
