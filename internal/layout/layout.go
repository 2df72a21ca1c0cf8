// Package layout has the ports, addresses, paths and containers of a cache pod in one place. Operator, agent and plugin use it.
// It is pure.
package layout

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

// PromoterAddress is where objects are taken into the memory tier, DisksAddress where it gets them from. Nothing outside of
// the pod reaches them.
const (
	PromoterAddress = "127.0.0.1:8086"
	DisksAddress    = "127.0.0.1:8087"
)

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
	// OwnerDir has the key by which the agent knows its own marks on disks; the agent's container alone mounts it.
	OwnerDir = "/etc/cachenode/owner"
	// AgentDir has the agent's program.
	AgentDir = "/opt/cachenode"
	// RunDir has what nginx and the agent share: configuration, pid file, nginx's temporary files.
	RunDir = "/run/cachenode"
	// ConfigFile is nginx's configuration, written by the agent.
	ConfigFile = RunDir + "/nginx.conf"
	// MemoryTierDir is a folder in memory for what is asked for most; MemoryTierCache is where nginx keeps it.
	MemoryTierDir   = "/var/cache/cachenode-memory"
	MemoryTierCache = MemoryTierDir + "/cache"
	// PIDFile holds the process id of nginx's master.
	PIDFile = RunDir + "/nginx.pid"
)

// Files in PodInfoDir.
const (
	AnnotationsFile = "annotations"
	CPULimitFile    = "cpu-limit"
	MemoryLimitFile = "memory-limit"
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
