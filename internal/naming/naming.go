// Package naming has every derived name, label, path and port in one place. It is pure.
package naming

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
)

// FieldManager is the operator's name in server-side apply.
const FieldManager = "cachenode-operator"

// Labels and annotations of what the operator makes.
const (
	// LabelName is the application: always Application.
	LabelName = "app.kubernetes.io/name"
	// LabelInstance is the name of the CacheNode.
	LabelInstance = "app.kubernetes.io/instance"
	// LabelManagedBy is FieldManager on every object; the operator's cache holds only such objects.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// AnnotationRevision, on a pod, is the revision of the configuration that its agent is to run: the stable one or the
	// candidate of the ConfigMap.
	AnnotationRevision = "cachenode.io/revision"
	// AnnotationNonce, on a pod, has no meaning: a change of any annotation makes the kubelet refresh the pod's volumes.
	AnnotationNonce = "cachenode.io/nonce"
	// AnnotationTemplate, on the StatefulSet, is the pod template that was applied last and a hash of what it was made
	// from. While that is the same, the template stays as it is, whatever a newer operator would make of it.
	AnnotationTemplate = "cachenode.io/template"
	// AnnotationRestart, on a CacheNode, asks for new pods, one by one, whenever its value changes.
	AnnotationRestart = "cachenode.io/restart"
	// AnnotationRetry, on a CacheNode, asks to try a refused configuration again, whenever its value changes.
	AnnotationRetry = "cachenode.io/retry"
	// AnnotationRepaired, on a pod, names a disk, or several with commas between, that a person has repaired: the pod
	// is evicted once, so that the kernel lets the dead file system go.
	AnnotationRepaired = "cachenode.io/repaired"
	// AnnotationRefused, on the ConfigMap, is the refused candidate, with the pod and what nginx said.
	AnnotationRefused = "cachenode.io/refused"
	// AnnotationApplied, on every object, is a hash of what the operator applied last. It tells an unchanged object,
	// which needs no write, from one that has lost a field.
	AnnotationApplied = "cachenode.io/applied"
	// Application is the value of LabelName.
	Application = "cachenode"
)

// Ports of a pod.
const (
	// PrivatePort serves health, version and stub_status; the client Service does not lead to it.
	PrivatePort = 8081
	// MetricsPort serves the agent's health and metrics.
	MetricsPort = 8083
	// AgentPort serves the agent's reports, to the operator alone.
	AgentPort = 8084
	// The ports' names.
	PortHTTP    = "http"
	PortHTTPS   = "https"
	PortPrivate = "private"
	PortMetrics = "metrics"
	PortAgent   = "agent"
)

// LogAddress is where nginx reports requests and errors to the agent, by UDP. Nothing outside of the pod reaches it.
const LogAddress = "127.0.0.1:8085"

// Paths in a pod. Only those of emptyDirs and disks are writable.
const (
	// ConfigDir has the files of the ConfigMap; the agent's container alone mounts it.
	ConfigDir = "/etc/cachenode/config"
	// PodInfoDir has what the agent learns of its pod: annotations and the CPU limit.
	PodInfoDir = "/etc/cachenode/pod"
	// CertificateDir has the agent's key and certificate and the operator's authority.
	CertificateDir = "/etc/cachenode/tls"
	// ListenerDir has the certificate and key that clients see; the agent's container alone mounts it.
	ListenerDir = "/etc/cachenode/listener"
	// AgentDir has the agent's program.
	AgentDir = "/opt/cachenode"
	// RunDir has what nginx and the agent share: configuration, pid file, nginx's temporary files.
	RunDir = "/run/cachenode"
	// ConfigFile is nginx's configuration, written by the agent.
	ConfigFile = RunDir + "/nginx.conf"
	// PIDFile holds the process id of nginx's master.
	PIDFile = RunDir + "/nginx.pid"
)

// Files in PodInfoDir.
const (
	AnnotationsFile = "annotations"
	CPULimitFile    = "cpu-limit"
)

// Keys of the ConfigMap: node.json of the revision that all pods run or go back to, and of the one that is being tried.
const (
	StableKey    = "stable.json"
	CandidateKey = "candidate.json"
)

// Keys of the Secret with the agent's certificates. Those of the client are the operator's and never mounted.
const (
	ServerCertificateKey = "tls.crt"
	ServerKeyKey         = "tls.key"
	AuthorityKey         = "ca.crt"
	ClientCertificateKey = "client.crt"
	ClientKeyKey         = "client.key"
	// The client's of the time before the last rotation, for agents that have yet to see the new ones.
	OldClientCertificateKey = "old-client.crt"
	OldClientKeyKey         = "old-client.key"
)

// Container and AgentContainer are the names of the containers that nginx and the agent run in.
const (
	Container      = "nginx"
	AgentContainer = "agent"
)

// CAFile is the origin's CA bundle, by the hash of its content: the configuration that is running and the one that is
// tried may have different ones.
func CAFile(hash string) string { return RunDir + "/ca-" + hash + ".crt" }

// ListenerCertificate and ListenerKey are what nginx shows to clients, by the hash of both.
func ListenerCertificate(hash string) string { return RunDir + "/listener-" + hash + ".crt" }

// ListenerKey is the key of ListenerCertificate.
func ListenerKey(hash string) string { return RunDir + "/listener-" + hash + ".key" }

// DiskDir is where a disk is mounted.
func DiskDir(disk string) string { return "/var/cache/cachenode/" + disk }

// OwnFolder is the folder on a disk, below its mount, that holds all that is ours: the cache, the owner's mark and the file
// of the probes. lost+found and what strangers put beside it are none of ours.
const OwnFolder = "cachenode"

// CacheDir is where nginx keeps a disk's cache files. Its loader deletes what it does not know, so nothing else is there.
func CacheDir(disk string) string { return DiskDir(disk) + "/" + OwnFolder + "/cache" }

// Pool is the name of a disk's thread pool.
func Pool(disk string) string { return "pool_" + disk }

// Zone is the name of a disk's cache and keys zone.
func Zone(disk string) string { return "cache_" + disk }

// Headless is the name of the StatefulSet's own Service.
func Headless(cacheNode string) string { return cacheNode + "-pods" }

// ConfigMap is the name of the ConfigMap with the configuration.
func ConfigMap(cacheNode string) string { return cacheNode + "-config" }

// AgentSecret is the name of the Secret with the certificates of agents and operator.
func AgentSecret(cacheNode string) string { return cacheNode + "-agent-tls" }

// AgentName is the name in the certificate of a CacheNode's agents. It is no DNS name: it says whose agents they are.
func AgentName(namespace, cacheNode string) string {
	return cacheNode + "." + namespace + ".agent.cachenode.io"
}

// ServiceHost is the name that nginx resolves for a Service. nginx knows no search domains.
func ServiceHost(name, namespace, clusterDomain string) string {
	return fmt.Sprintf("%s.%s.svc.%s", name, namespace, clusterDomain)
}

// Labels are on every object of a CacheNode.
func Labels(cacheNode string) map[string]string {
	return map[string]string{
		LabelName:      Application,
		LabelInstance:  cacheNode,
		LabelManagedBy: FieldManager,
	}
}

// PodSelector are the labels that select a CacheNode's pods. A StatefulSet's selector can never change.
func PodSelector(cacheNode string) map[string]string {
	return map[string]string{LabelName: Application, LabelInstance: cacheNode}
}

// Managed selects all that the operator makes.
func Managed() labels.Selector {
	return labels.SelectorFromSet(labels.Set{LabelManagedBy: FieldManager})
}
