// Package naming has every derived name, label, annotation and key in one place. It is pure.
//
// It imports no other package. A name, label, annotation or key that the operator derives goes here, and nowhere else.
package naming

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// FieldManager is the operator's name in server-side apply.
const FieldManager = "cachenode-operator"

// Labels and annotations of the objects that the operator makes.
const (
	// LabelName is the application: always Application.
	LabelName = "app.kubernetes.io/name"
	// LabelInstance is the name of the CacheNode.
	LabelInstance = "app.kubernetes.io/instance"
	// LabelManagedBy is FieldManager on every object. The operator's cache holds only such objects.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// AnnotationRevision, on a pod, is the revision that its agent is to run: the stable one or the candidate of the
	// ConfigMap.
	AnnotationRevision = "cachenode.io/revision"
	// AnnotationNonce, on a pod, has no meaning: a change of any annotation makes the kubelet refresh the pod's volumes.
	AnnotationNonce = "cachenode.io/nonce"
	// AnnotationTemplate, on the ConfigMap, is the pod template that was applied last and a hash of its input. While the
	// input is the same, the template stays as it is, whatever a newer operator would make of the input. The StatefulSet
	// cannot hold it, as that is recreated when the disks change.
	AnnotationTemplate = "cachenode.io/template"
	// AnnotationInput, on a pod, is the hash of its template's input; on a scout, its command.
	AnnotationInput = "cachenode.io/template-input"
	// AnnotationWorkers, on a pod with io.mode Workers, is io.workersPerCPU.
	AnnotationWorkers = "cachenode.io/workers-per-cpu"
	// AnnotationDrained, on a pod, names the disks that its agent is to leave alone, separated by commas.
	AnnotationDrained = "cachenode.io/drained"
	// AnnotationEmpty, on a pod, names caches that its agent may delete, as DISK=NAMESPACE/NAME separated by commas. The
	// CacheNode of such a cache is gone.
	AnnotationEmpty = "cachenode.io/empty"
	// AnnotationFleet, on a pod, says which pods share keys, as the ConfigMap does. On the ConfigMap, it is until when
	// the pods fill from the previous owners, or Never.
	AnnotationFleet = "cachenode.io/fleet"
	// AnnotationPeers, on a pod, is how it talks to other pods; pods without it cannot.
	AnnotationPeers = "cachenode.io/peers"
	// AnnotationPath and AnnotationNode, on a PersistentVolume of ours, are its folder and its node.
	AnnotationPath = "cachenode.io/path"
	AnnotationNode = "cachenode.io/node"
	// LabelNamespace is the namespace of the CacheNode, on objects without a namespace.
	LabelNamespace = "cachenode.io/namespace"
	// LabelDisk is the name of the disk that a volume or claim is for.
	LabelDisk = "cachenode.io/disk"
	// LabelRole distinguishes the volumes, claims and pods that stand in for a missing disk from the others.
	LabelRole = "cachenode.io/role"
	// AnnotationEvictions, on the PodDisruptionBudget, says why it allows no eviction. EvictionsNeedCordon: pods that
	// share keys hand them over first, and the cordon of a node announces that. EvictionsNeedHandover: pods are doing so.
	AnnotationEvictions   = "cachenode.io/evictions"
	EvictionsNeedCordon   = "need-cordon"
	EvictionsNeedHandover = "need-hand-over"
	// AnnotationRefused, on the ConfigMap, is the refused candidate, with the pod and nginx's message.
	AnnotationRefused = "cachenode.io/refused"
	// AnnotationRequestedBy, on a CachePurge, is the user for whom the HTTP endpoint for purges has created it.
	AnnotationRequestedBy = "cachenode.io/requested-by"
	// AnnotationApplied, on every object, is a hash of what the operator applied last. It distinguishes an unchanged
	// object, which needs no write, from one that has lost a field.
	AnnotationApplied = "cachenode.io/applied"
	// Application is the value of LabelName.
	Application = "cachenode"
)

// Values of LabelRole.
const (
	// RoleDisk is a volume for a disk.
	RoleDisk = "disk"
	// RolePlaceholder is an empty volume in the place of one that cannot be mounted.
	RolePlaceholder = "placeholder"
	// RoleScout is a pod, with its claim and volume, that waits for a disk that cannot be mounted.
	RoleScout = "scout"
)

// Never is a time that does not come.
const Never = "never"

// LocalClass is the StorageClass of the volumes that the operator makes.
const LocalClass = "cachenode-local"

// PlaceholderPath is the empty folder on each node to which placeholders lead. The kubelet creates it, and no pod can
// write to it.
const PlaceholderPath = "/var/lib/cachenode/placeholder"

// Keys of the ConfigMap: for the stable revision, for the candidate, and for the pods that share keys.
const (
	StableKey    = "stable.json"
	CandidateKey = "candidate.json"
	FleetKey     = "fleet.json"
	// OriginPolicyKey has what the operator's flags say about origins.
	OriginPolicyKey = "origin-policy.json"
)

// PurgesKey is the key of a ConfigMap with a segment of the journal of purges.
const PurgesKey = "segment.json.gz"

// Keys of the Secret with the agent's certificates. The operator uses those of the client, and no pod mounts them.
const (
	ServerCertificateKey = "tls.crt"
	ServerKeyKey         = "tls.key"
	AuthorityKey         = "ca.crt"
	ClientCertificateKey = "client.crt"
	ClientKeyKey         = "client.key"
	// OwnerKeyKey is the key that signs the marks on the CacheNode's disks. OwnerLegacyKey is the time (RFC 3339) before
	// which unsigned marks are believed. It is set only if the CacheNode was at work before it had an owner key.
	OwnerKeyKey    = "owner.key"
	OwnerLegacyKey = "owner.legacy"
	// What the pods show to each other, and the authorities that they trust for it. The next certificate and key are
	// those that they will show when all pods trust their authority.
	PeerCertificateKey     = "peer.crt"
	PeerKeyKey             = "peer.key"
	PeerAuthorityKey       = "peer-ca.crt"
	NextPeerCertificateKey = "next-peer.crt"
	NextPeerKeyKey         = "next-peer.key"
	// The client's certificate and key from before the last rotation, for agents that have not seen the new ones yet.
	OldClientCertificateKey = "old-client.crt"
	OldClientKeyKey         = "old-client.key"
)

// Pool returns the name of a disk's thread pool.
func Pool(disk string) string { return "pool_" + disk }

// Zone returns the name of a disk's cache and keys zone.
func Zone(disk string) string { return "cache_" + disk }

// Headless returns the name of the StatefulSet's own Service.
func Headless(cacheNode string) string { return cacheNode + "-pods" }

// ConfigMap returns the name of the ConfigMap with the configuration.
func ConfigMap(cacheNode string) string { return cacheNode + "-config" }

// purges is between the names of a CacheNode and a slot of its journal.
const purges = "-purges-"

// PurgesSlots is how many segments of the journal of purges are stored at most, one in each slot.
const PurgesSlots = 16

// Purges returns the name of the ConfigMap with a segment of the journal of purges.
func Purges(cacheNode string, slot int) string { return cacheNode + purges + strconv.Itoa(slot) }

// IsPurges returns true for the name of such a ConfigMap.
func IsPurges(name, cacheNode string) bool { return strings.HasPrefix(name, cacheNode+purges) }

// PurgesFile returns the name of the file in which a pod finds a segment.
func PurgesFile(slot int) string { return strconv.Itoa(slot) + ".json.gz" }

// AgentSecret returns the name of the Secret with the certificates of agents and operator.
func AgentSecret(cacheNode string) string { return cacheNode + "-agent-tls" }

// AgentName returns the name in the certificate of a CacheNode's agents. It is not a DNS name: it says whose agents
// they are.
func AgentName(namespace, cacheNode string) string {
	return cacheNode + "." + namespace + ".agent.cachenode.io"
}

// OperatorSubject begins the common name of the operator's certificate for agents.
const OperatorSubject = "operator"

// PeerName returns the name in the certificates by which the pods of a CacheNode know each other.
func PeerName(namespace, cacheNode string) string {
	return cacheNode + "." + namespace + ".peer.cachenode.io"
}

// PodHost returns the name by which nginx resolves a pod.
func PodHost(cacheNode string, ordinal int, namespace, clusterDomain string) string {
	return Pod(cacheNode, ordinal) + "." + ServiceHost(Headless(cacheNode), namespace, clusterDomain)
}

// ServiceHost returns the name by which nginx resolves a Service. nginx knows no search domains.
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

// Claim returns the name of a pod's claim for a disk, as the StatefulSet controller makes it.
func Claim(disk, pod string) string { return disk + "-" + pod }

// Scout returns the name of the pod that waits for a pod's missing disk, and of its claim. The name never collides with
// a pod's claim, which ends in an ordinal.
func Scout(disk, pod string) string { return pod + "-" + disk + "-scout" }

// Volume returns the name of the PersistentVolume for a folder on a node, so two CacheNodes cannot have that folder at
// once.
func Volume(node, path string) string {
	sum := sha256.Sum256([]byte(node + "\x00" + path))
	return "cachenode-" + hex.EncodeToString(sum[:])[:20]
}

// Placeholder returns the name of the PersistentVolume that stands in for the volume of a claim.
func Placeholder(namespace, claim string) string {
	sum := sha256.Sum256([]byte(namespace + "\x00" + claim))
	return "cachenode-placeholder-" + hex.EncodeToString(sum[:])[:20]
}

// ScoutVolume returns the name of the PersistentVolume through which a scout looks at the disk's path.
func ScoutVolume(namespace, scout string) string {
	sum := sha256.Sum256([]byte(namespace + "\x00" + scout))
	return "cachenode-scout-" + hex.EncodeToString(sum[:])[:20]
}

// VolumeLabels returns the labels of every PersistentVolume for a disk of a CacheNode. A claim selects by them.
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

// PodSelector returns the labels that select a CacheNode's pods. A StatefulSet's selector can never change.
func PodSelector(cacheNode string) map[string]string {
	return map[string]string{LabelName: Application, LabelInstance: cacheNode}
}

// Managed selects all that the operator makes.
func Managed() labels.Selector {
	return labels.SelectorFromSet(labels.Set{LabelManagedBy: FieldManager})
}
