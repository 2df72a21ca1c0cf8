// Package naming defines every derived name, label, annotation and key in one place. It is pure.
//
// It imports no other package. A name, label, annotation or key that the operator derives belongs here, and nowhere
// else.
package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// FieldManager is the operator's name in server-side apply.
const FieldManager = "cachenode-operator"

// Labels and annotations of the objects that the operator makes.
const (
	// LabelName is the label for the name of the application, which is always Application.
	LabelName = "app.kubernetes.io/name"
	// LabelInstance is the name of the CacheNode.
	LabelInstance = "app.kubernetes.io/instance"
	// LabelManagedBy has the value FieldManager on every object. The operator's informer cache contains only such objects.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// AnnotationRevision, on a pod, is the revision that its agent must run: the stable revision or the candidate in the
	// ConfigMap.
	AnnotationRevision = "cachenode.io/revision"
	// AnnotationNonce, on a pod, has a value without meaning. The operator changes it because a change of any annotation
	// makes the kubelet refresh the pod's volumes.
	AnnotationNonce = "cachenode.io/nonce"
	// AnnotationTemplate, on the ConfigMap, contains the pod template that was applied last, and a hash of its input.
	// While the input is the same, the template stays the same, even if a newer operator would make another template
	// from the same input. The annotation is not on the StatefulSet, because the StatefulSet is recreated when the disks
	// change.
	AnnotationTemplate = "cachenode.io/template"
	// AnnotationInput, on a pod, is the hash of the values from which the pod template was made (manifest.PodInput). On
	// a scout, it is the scout's command.
	AnnotationInput = "cachenode.io/template-input"
	// AnnotationWorkers, on a pod with io.mode Workers, is the value of io.workersPerCPU.
	AnnotationWorkers = "cachenode.io/workers-per-cpu"
	// AnnotationDrained, on a pod, names the drained disks, which its agent must not use, separated by commas.
	AnnotationDrained = "cachenode.io/drained"
	// AnnotationEmpty, on a pod, names caches that its agent may delete, as DISK=NAMESPACE/NAME separated by commas. The
	// CacheNode of such a cache is gone.
	AnnotationEmpty = "cachenode.io/empty"
	// AnnotationFleet, on a pod, defines which pods share keys, in the same form as in the ConfigMap. On the ConfigMap,
	// it is the time until which the pods fill keys from the previous owners, or Never.
	AnnotationFleet = "cachenode.io/fleet"
	// AnnotationPeers, on a pod, defines how the pod talks to other pods. A pod without this annotation cannot talk to
	// other pods.
	AnnotationPeers = "cachenode.io/peers"
	// AnnotationPath and AnnotationNode, on a PersistentVolume that the operator made, are its folder and its node.
	AnnotationPath = "cachenode.io/path"
	AnnotationNode = "cachenode.io/node"
	// LabelNamespace is the namespace of the CacheNode, on objects without a namespace.
	LabelNamespace = "cachenode.io/namespace"
	// LabelDisk is the name of the disk to which a volume or claim belongs.
	LabelDisk = "cachenode.io/disk"
	// LabelRole is the role of a volume, claim or pod. It distinguishes the objects that stand in for a missing disk
	// from the others.
	LabelRole = "cachenode.io/role"
	// AnnotationEvictions, on the PodDisruptionBudget, says why the budget allows no eviction. EvictionsNeedCordon means
	// that a pod that shares keys must hand its keys over before its eviction. Its node must be cordoned to announce the
	// eviction. EvictionsNeedHandover means that pods are handing their keys over.
	AnnotationEvictions   = "cachenode.io/evictions"
	EvictionsNeedCordon   = "need-cordon"
	EvictionsNeedHandover = "need-hand-over"
	// AnnotationRefused, on the ConfigMap, contains the refused candidate, the pod that refused it and nginx's message.
	AnnotationRefused = "cachenode.io/refused"
	// AnnotationRequestedBy, on a CachePurge, is the user for whom the HTTP endpoint for purges has created the
	// CachePurge.
	AnnotationRequestedBy = "cachenode.io/requested-by"
	// AnnotationApplied, on every object, is a hash of what the operator applied last. It distinguishes an unchanged
	// object, which needs no write, from an object that has lost a field.
	AnnotationApplied = "cachenode.io/applied"
	// Application is the value of LabelName.
	Application = "cachenode"
)

// Labels of the Service of a Gateway. The Service is in the namespace of the CacheNode.
const (
	// LabelGateway is the name of the Gateway, as the Gateway API defines it (GEP-1762). A name that is too long for a
	// label is shortened. LabelGatewayNamespace is the namespace of the Gateway.
	LabelGateway          = "gateway.networking.k8s.io/gateway-name"
	LabelGatewayNamespace = "cachenode.io/gateway-namespace"
	// LabelClosed is a label that no pod has. The Service of a Gateway that is not served selects it.
	LabelClosed = "cachenode.io/closed"
	// AnnotationGateway contains the namespace and the name of the Gateway, with a slash between them.
	AnnotationGateway = "cachenode.io/gateway"
)

// Values of LabelRole.
const (
	// RoleDisk is the role of a volume for a disk.
	RoleDisk = "disk"
	// RolePlaceholder is the role of an empty volume in the place of a volume that cannot be mounted.
	RolePlaceholder = "placeholder"
	// RoleScout is the role of a pod that waits for a disk that cannot be mounted, and of the pod's claim and volume.
	RoleScout = "scout"
)

// Never stands for a time that never comes.
const Never = "never"

// LocalClass is the name of the StorageClass of the volumes that the operator makes.
const LocalClass = "cachenode-local"

// PlaceholderPath is the empty folder on each node that placeholders use. The kubelet creates it, and no pod can
// write to it.
const PlaceholderPath = "/var/lib/cachenode/placeholder"

// Keys of the ConfigMap: for the stable revision, for the candidate, and for the pods that share keys.
const (
	StableKey    = "stable.json"
	CandidateKey = "candidate.json"
	FleetKey     = "fleet.json"
	// OriginPolicyKey is the key of the policy for origins, which comes from the operator's flags.
	OriginPolicyKey = "origin-policy.json"
)

// PurgesKey is the key of a segment of the journal of purges in its ConfigMap.
const PurgesKey = "segment.json.gz"

// Keys of the Secret with the agent's certificates. Only the operator uses the entries for the client, and no pod
// mounts them.
const (
	ServerCertificateKey = "tls.crt"
	ServerKeyKey         = "tls.key"
	AuthorityKey         = "ca.crt"
	ClientCertificateKey = "client.crt"
	ClientKeyKey         = "client.key"
	// The entry OwnerKeyKey contains the key that signs the marks on the CacheNode's disks. The entry OwnerLegacyKey
	// contains a time (RFC 3339): unsigned marks from before this time are accepted. OwnerLegacyKey is set only if the
	// CacheNode was at work before it had an owner key.
	OwnerKeyKey    = "owner.key"
	OwnerLegacyKey = "owner.legacy"
	// The certificate that the pods show to each other, its key, and the authorities that the pods trust. The pods will
	// show the next certificate when all pods trust its authority.
	PeerCertificateKey     = "peer.crt"
	PeerKeyKey             = "peer.key"
	PeerAuthorityKey       = "peer-ca.crt"
	NextPeerCertificateKey = "next-peer.crt"
	NextPeerKeyKey         = "next-peer.key"
	// The client's certificate and key from before the last rotation, for agents that do not have the new ones yet.
	OldClientCertificateKey = "old-client.crt"
	OldClientKeyKey         = "old-client.key"
)

// Pool returns the name of a disk's thread pool.
func Pool(disk string) string { return "pool_" + disk }

// Zone returns the name of a disk's cache and keys zone.
func Zone(disk string) string { return "cache_" + disk }

// Headless returns the name of the headless Service of the StatefulSet.
func Headless(cacheNode string) string { return cacheNode + "-pods" }

// ConfigMap returns the name of the ConfigMap with the configuration.
func ConfigMap(cacheNode string) string { return cacheNode + "-config" }

// purges is the part of a ConfigMap's name between the name of a CacheNode and the number of a slot of its journal.
const purges = "-purges-"

// PurgesSlots is the maximum number of segments of the journal of purges that are stored, one in each slot.
const PurgesSlots = 16

// Purges returns the name of the ConfigMap with a segment of the journal of purges.
func Purges(cacheNode string, slot int) string { return cacheNode + purges + strconv.Itoa(slot) }

// IsPurges returns true for the name of a ConfigMap with a segment of the CacheNode's journal.
func IsPurges(name, cacheNode string) bool { return strings.HasPrefix(name, cacheNode+purges) }

// PurgesFile returns the name of the file in which a pod finds a segment.
func PurgesFile(slot int) string { return strconv.Itoa(slot) + ".json.gz" }

// CertificatesSlots is the number of Secrets that contain the certificates of Gateways. The pods mount all of them, so
// another number would replace the pods.
const CertificatesSlots = 16

// Certificates returns the name of a Secret with certificates of the CacheNode's Gateways.
func Certificates(cacheNode string, slot int) string {
	return cacheNode + "-certificates-" + strconv.Itoa(slot)
}

// Certificate returns the ID of the certificate in a Secret that a Gateway names. namespace is the UID of the Secret's
// namespace, so that a namespace that is created again does not get the certificates of the earlier one. Secrets and
// files with certificates use the ID as a name.
func Certificate(namespace types.UID, secret types.NamespacedName) string {
	sum := sha256.Sum256([]byte(string(namespace) + "\x00" + secret.String()))
	return hex.EncodeToString(sum[:16])
}

// AgentSecret returns the name of the Secret with the certificates of agents and operator.
func AgentSecret(cacheNode string) string { return cacheNode + "-agent-tls" }

// AgentName returns the name in the certificate of a CacheNode's agents. It does not exist in DNS: it only says to
// which CacheNode the agents belong.
func AgentName(namespace, cacheNode string) string {
	return cacheNode + "." + namespace + ".agent.cachenode.io"
}

// OperatorSubject is the beginning of the common name in the operator's client certificate. The agents check it.
const OperatorSubject = "operator"

// PeerName returns the name in the certificates by which the pods of a CacheNode authenticate each other.
func PeerName(namespace, cacheNode string) string {
	return cacheNode + "." + namespace + ".peer.cachenode.io"
}

// PodHost returns the DNS name of a pod, which nginx resolves.
func PodHost(cacheNode string, ordinal int, namespace, clusterDomain string) string {
	return Pod(cacheNode, ordinal) + "." + ServiceHost(Headless(cacheNode), namespace, clusterDomain)
}

// ServiceHost returns the full DNS name of a Service, because nginx does not use search domains.
func ServiceHost(name, namespace, clusterDomain string) string {
	return fmt.Sprintf("%s.%s.svc.%s", name, namespace, clusterDomain)
}

// Pod returns the name of the pod with an ordinal.
func Pod(cacheNode string, ordinal int) string { return fmt.Sprintf("%s-%d", cacheNode, ordinal) }

// Ordinal returns the ordinal of a pod of the CacheNode's StatefulSet. ok is false for any other name.
func Ordinal(cacheNode, pod string) (ordinal int, ok bool) {
	digits, ok := strings.CutPrefix(pod, cacheNode+"-")
	if !ok {
		return 0, false
	}
	ordinal, err := strconv.Atoi(digits)
	return ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == digits
}

// Claim returns the name of a pod's claim for a disk, in the form that the StatefulSet controller uses.
func Claim(disk, pod string) string { return disk + "-" + pod }

// Scout returns the name of the scout that waits for a pod's missing disk. The claim of the scout has the same name.
// The name never collides with a pod's claim, which ends in an ordinal.
func Scout(disk, pod string) string { return pod + "-" + disk + "-scout" }

// Volume returns the name of the PersistentVolume for a folder on a node. Two CacheNodes cannot have the same folder
// at the same time, because the name would be the same.
func Volume(node, path string) string {
	sum := sha256.Sum256([]byte(node + "\x00" + path))
	return "cachenode-" + hex.EncodeToString(sum[:])[:20]
}

// Placeholder returns the name of the PersistentVolume that stands in for the volume of a claim.
func Placeholder(namespace, claim string) string {
	sum := sha256.Sum256([]byte(namespace + "\x00" + claim))
	return "cachenode-placeholder-" + hex.EncodeToString(sum[:])[:20]
}

// ScoutVolume returns the name of the PersistentVolume through which a scout sees the disk's path.
func ScoutVolume(namespace, scout string) string {
	sum := sha256.Sum256([]byte(namespace + "\x00" + scout))
	return "cachenode-scout-" + hex.EncodeToString(sum[:])[:20]
}

// Gateway returns the name of the Service of a Gateway. Two Gateways get different names, because the name contains a
// hash of the Gateway's namespace and name.
func Gateway(namespace, gateway string) string {
	const most, digits = 34, 20 // a name with fewer digits could be made equal to the name of another team
	sum := sha256.Sum256([]byte(namespace + "\x00" + gateway))
	plain := strings.ReplaceAll(gateway, ".", "-") // a Service is named by a single DNS label
	return "gateway-" + strings.Trim(plain[:min(len(plain), most)], "-") + "-" + hex.EncodeToString(sum[:])[:digits]
}

// GatewayLabels returns the labels of the Service of a Gateway.
func GatewayLabels(cacheNode, namespace, gateway string) map[string]string {
	const most = 63
	labels := Labels(cacheNode)
	labels[LabelGatewayNamespace] = namespace
	labels[LabelGateway] = strings.TrimRight(gateway[:min(len(gateway), most)], "-.")
	return labels
}

// Split returns the name in a text of the form NAMESPACE/NAME. It returns no name for any other text.
func Split(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// VolumeLabels returns the labels of every PersistentVolume for a disk of a CacheNode. A claim selects volumes by
// these labels.
func VolumeLabels(namespace, cacheNode, disk, role string) map[string]string {
	labels := Labels(cacheNode)
	labels[LabelNamespace], labels[LabelDisk], labels[LabelRole] = namespace, disk, role
	return labels
}

// ScoutLabels returns the labels of the scouts of a CacheNode and of their claims. The Service and the StatefulSet do
// not select them.
func ScoutLabels(cacheNode string) map[string]string {
	return map[string]string{
		LabelName:      Application + "-" + RoleScout,
		LabelInstance:  cacheNode,
		LabelManagedBy: FieldManager,
		LabelRole:      RoleScout,
	}
}

// Labels returns the labels of every object of a CacheNode.
func Labels(cacheNode string) map[string]string {
	return map[string]string{
		LabelName:      Application,
		LabelInstance:  cacheNode,
		LabelManagedBy: FieldManager,
	}
}

// PodSelector returns the labels that select a CacheNode's pods. They must stay the same, because the selector of a
// StatefulSet cannot be changed.
func PodSelector(cacheNode string) map[string]string {
	return map[string]string{LabelName: Application, LabelInstance: cacheNode}
}

// Managed returns the selector of all objects that the operator makes.
func Managed() labels.Selector {
	return labels.SelectorFromSet(labels.Set{LabelManagedBy: FieldManager})
}
