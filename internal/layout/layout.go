// Package layout has the ports, addresses, paths and containers of a cache pod in one place. Operator, agent and plugin
// use it. It is pure.
//
// It imports no other package. A new port, path or container of the pod goes here.
package layout

// Ports of a pod.
const (
	// PrivatePort serves health, version and stub_status. The client Service does not lead to it.
	PrivatePort = 8081
	// MetricsPort serves the agent's health and metrics.
	MetricsPort = 8083
	// AgentPort serves the agent's reports, to the operator alone.
	AgentPort = 8084
	// LookupPort and PeerPort serve the other pods of a CacheNode with routing.mode Sharded. LookupPort answers only what
	// is cached, PeerPort also fetches.
	LookupPort = 8088
	PeerPort   = 8089
	// The ports' names.
	PortHTTP    = "http"
	PortHTTPS   = "https"
	PortHTTP3   = "http3"
	PortPrivate = "private"
	PortMetrics = "metrics"
	PortAgent   = "agent"
	PortLookup  = "lookup"
	PortPeer    = "peer"
)

// LogAddress is where nginx reports requests and errors to the agent, by UDP. Nothing outside the pod reaches it.
const LogAddress = "127.0.0.1:8085"

// ResolverAddress is where nginx asks the agent for the addresses of names, by UDP and TCP. Nothing outside the pod
// reaches it.
const ResolverAddress = "127.0.0.1:8086"

// Sockets of nginx's servers that only nginx itself uses. A killed nginx leaves them, and another one cannot listen
// there, so the pod's container deletes what matches NginxSockets. A template does not have to know each of them: a
// later agent may add one.
const (
	NginxSockets = RunDir + "/nginx-*.sock"
	// GatewaySocket is where the caches of the disks get objects: the server between them and the origin.
	GatewaySocket = RunDir + "/nginx-gateway.sock"
	// PromoterSocket is where objects are promoted to the memory tier, and DisksSocket is where it gets them from.
	PromoterSocket = RunDir + "/nginx-promoter.sock"
	DisksSocket    = RunDir + "/nginx-disks.sock"
)

// Paths in a pod. Only those on emptyDirs and disks are writable.
const (
	// ConfigDir has the files of the ConfigMap. Only the agent's container mounts it.
	ConfigDir = "/etc/cachenode/config"
	// PodInfoDir has the facts of its pod for the agent: annotations and the limits of CPU and memory.
	PodInfoDir = "/etc/cachenode/pod"
	// CertificateDir has the agent's key and certificate and the operator's authority.
	CertificateDir = "/etc/cachenode/tls"
	// ListenerDir has the certificate that clients see and its key. Only the agent's container mounts it.
	ListenerDir = "/etc/cachenode/listener"
	// OwnerDir has the key by which the agent knows its own marks on disks. Only the agent's container mounts it.
	OwnerDir = "/etc/cachenode/owner"
	// PeerDir has the certificate and key by which pods of the CacheNode know each other, and their authority. Only the
	// agent's container mounts it.
	PeerDir = "/etc/cachenode/peer"
	// PurgesDir has the journal of purges. Only the agent's container mounts it.
	PurgesDir = "/etc/cachenode/purges"
	// AgentSocket is where the agent tells programs in the pod what is cached.
	AgentSocket = RunDir + "/agent.sock"
	// PurgesCopy is the agent's own copy of it, and MemoryPurges says what of it the memory tier obeys.
	PurgesCopy   = RunDir + "/purges.json.gz"
	MemoryPurges = RunDir + "/memory-purges.json"
	// AgentDir has the agent's program.
	AgentDir = "/opt/cachenode"
	// RunDir has what nginx and the agent share: the configuration, the pid file and nginx's temporary files.
	RunDir = "/run/cachenode"
	// ConfigFile is nginx's configuration, written by the agent.
	ConfigFile = RunDir + "/nginx.conf"
	// DisksInUse has the names of the disks that nginx may use, written by the agent for the time after it is restarted.
	DisksInUse = RunDir + "/disks-in-use.json"
	// MemoryTierDir is a folder in memory for the hottest objects. MemoryTierCache is where nginx keeps them.
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

// CAFile returns the origin's CA bundle, by the hash of its content. The stable configuration and the candidate may
// have different bundles.
func CAFile(hash string) string { return RunDir + "/ca-" + hash + ".crt" }

// ScriptFile returns the script that nginx runs, by the hash of its content.
func ScriptFile(hash string) string { return RunDir + "/script-" + hash + ".js" }

// ListenerCertificate returns the certificate that nginx shows to clients, by the hash of certificate and key.
func ListenerCertificate(hash string) string { return RunDir + "/listener-" + hash + ".crt" }

// ListenerKey returns the key of ListenerCertificate.
func ListenerKey(hash string) string { return RunDir + "/listener-" + hash + ".key" }

// PeerCertificate returns the certificate that pods show to each other, by a hash of it, its key and the authorities
// that pods demand of each other.
func PeerCertificate(hash string) string { return RunDir + "/peer-" + hash + ".crt" }

// PeerKey returns the key of PeerCertificate.
func PeerKey(hash string) string { return RunDir + "/peer-" + hash + ".key" }

// PeerAuthority returns the authorities that pods demand of each other.
func PeerAuthority(hash string) string { return RunDir + "/peer-" + hash + "-ca.crt" }

// DiskDir returns where a disk is mounted.
func DiskDir(disk string) string { return "/var/cache/cachenode/" + disk }

// OwnFolder is the folder on a disk, below its mount, that holds everything of ours: the cache, the owner's mark and
// the file of the probes. lost+found and other people's files beside it are not ours.
const OwnFolder = "cachenode"

// PurgesState returns the file in which a disk notes what it has obeyed of the journal of purges, and the generation of
// its keys.
func PurgesState(disk string) string { return DiskDir(disk) + "/" + OwnFolder + "/purges.json" }

// CacheDir returns where nginx keeps a disk's cache files. nginx's loader deletes files that it does not know, so
// nothing else is there.
func CacheDir(disk string) string { return DiskDir(disk) + "/" + OwnFolder + "/cache" }

// RefreshDir returns where nginx keeps, for some seconds, responses that several requests for an expired object wait
// for.
func RefreshDir(disk string) string { return DiskDir(disk) + "/" + OwnFolder + "/refresh" }
