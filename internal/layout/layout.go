// Package layout defines the ports, addresses, paths and containers of a cache pod in one place. The operator, the
// agent and the plugin use it. It is pure.
//
// It imports no other package. A new port, path or container of the pod belongs here.
package layout

// Ports of a pod.
const (
	// PrivatePort serves health, version and stub_status. The Service for clients does not lead to it.
	PrivatePort = 8081
	// MetricsPort serves the agent's health and metrics.
	MetricsPort = 8083
	// AgentPort serves the agent's reports, only to the operator.
	AgentPort = 8084
	// LookupPort and PeerPort serve the other pods of a CacheNode with routing.mode Sharded. LookupPort serves only what
	// is cached. PeerPort also fetches objects.
	LookupPort = 8088
	PeerPort   = 8089
	// RoutesLookupPort and RoutesPeerPort serve the sites of routes, in the same way as LookupPort and PeerPort serve the
	// CacheNode's own site.
	RoutesLookupPort = 8090
	RoutesPeerPort   = 8091
	// The names of the ports.
	PortHTTP    = "http"
	PortHTTPS   = "https"
	PortHTTP3   = "http3"
	PortPrivate = "private"
	PortMetrics = "metrics"
	PortAgent   = "agent"
	PortLookup  = "lookup"
	PortPeer    = "peer"
)

// LogAddress is the address at which the agent receives nginx's reports of requests and errors, by UDP. It cannot be
// reached from outside the pod.
const LogAddress = "127.0.0.1:8085"

// ResolverAddress is the address at which the agent resolves names for nginx, by UDP and TCP. It cannot be reached
// from outside the pod.
const ResolverAddress = "127.0.0.1:8086"

// Sockets of nginx's servers that only nginx itself uses. An nginx that was killed leaves its sockets behind, and a
// new nginx cannot listen on them. The nginx container therefore deletes the files that match NginxSockets before it
// starts nginx. A pod template contains only this pattern, not each socket, because a later agent may add a socket.
const (
	NginxSockets = RunDir + "/nginx-*.sock"
	// GatewaySocket is the socket of the gateway, the server between the caches of the disks and the origin. The caches
	// get objects from it.
	GatewaySocket = RunDir + "/nginx-gateway.sock"
	// PromoterSocket is the socket of the server that promotes objects to the memory tier. DisksSocket is the socket of
	// the server from which the memory tier gets these objects.
	PromoterSocket = RunDir + "/nginx-promoter.sock"
	DisksSocket    = RunDir + "/nginx-disks.sock"
	// FiltersSocket is the socket of the server that changes the headers of requests to the backends of routes.
	FiltersSocket = RunDir + "/nginx-filters.sock"
)

// Paths in a pod. Only those on emptyDirs and disks are writable.
const (
	// ConfigDir contains the files of the ConfigMap. Only the agent's container mounts it.
	ConfigDir = "/etc/cachenode/config"
	// PodInfoDir contains facts about the pod for the agent: annotations and the limits of CPU and memory.
	PodInfoDir = "/etc/cachenode/pod"
	// CertificateDir contains the agent's key and certificate, and the authority of the operator's certificate.
	CertificateDir = "/etc/cachenode/tls"
	// ListenerDir contains the certificate that clients see, and its key. Only the agent's container mounts it.
	ListenerDir = "/etc/cachenode/listener"
	// OwnerDir contains the key by which the agent recognizes its own marks on disks. Only the agent's container mounts
	// it.
	OwnerDir = "/etc/cachenode/owner"
	// PeerDir contains the certificate and the key with which the pods of the CacheNode authenticate each other. It also
	// contains the certificate of their authority. Only the agent's container mounts it.
	PeerDir = "/etc/cachenode/peer"
	// CertificatesDir contains the certificates of Gateways with their keys. The name of a file is the ID of the
	// certificate. Only the agent's container mounts it.
	CertificatesDir = "/etc/cachenode/certificates"
	// PurgesDir contains the journal of purges. Only the agent's container mounts it.
	PurgesDir = "/etc/cachenode/purges"
	// AgentSocket is the socket at which the agent tells programs in the pod what is cached.
	AgentSocket = RunDir + "/agent.sock"
	// PurgesCopy is the agent's own copy of the journal of purges. MemoryPurges says which part of the journal the
	// memory tier obeys.
	PurgesCopy   = RunDir + "/purges.json.gz"
	MemoryPurges = RunDir + "/memory-purges.json"
	// AgentDir contains the agent's program.
	AgentDir = "/opt/cachenode"
	// RunDir contains what nginx and the agent share: the configuration, the pid file and nginx's temporary files.
	RunDir = "/run/cachenode"
	// ConfigFile is nginx's configuration, written by the agent.
	ConfigFile = RunDir + "/nginx.conf"
	// DisksInUse contains the names of the disks that nginx may use. The agent writes this file and reads it after a
	// restart.
	DisksInUse = RunDir + "/disks-in-use.json"
	// MemoryTierDir is a folder in memory for the hottest objects. MemoryTierCache is the folder in which nginx stores
	// them.
	MemoryTierDir   = "/var/cache/cachenode-memory"
	MemoryTierCache = MemoryTierDir + "/cache"
	// PIDFile holds the process id of nginx's master.
	PIDFile = RunDir + "/nginx.pid"
)

// The names of the files in PodInfoDir.
const (
	AnnotationsFile = "annotations"
	CPULimitFile    = "cpu-limit"
	MemoryLimitFile = "memory-limit"
)

// Container and AgentContainer are the names of the containers in which nginx and the agent run.
const (
	Container      = "nginx"
	AgentContainer = "agent"
)

// CAFile returns the path of the origin's CA bundle, given the hash of its content. The stable configuration and the
// candidate may have different bundles.
func CAFile(hash string) string { return RunDir + "/ca-" + hash + ".crt" }

// ScriptFile returns the path of the script that nginx runs, given the hash of its content.
func ScriptFile(hash string) string { return RunDir + "/script-" + hash + ".js" }

// ListenerCertificate returns the path of the certificate that nginx shows to clients, given the hash of certificate
// and key.
func ListenerCertificate(hash string) string { return RunDir + "/listener-" + hash + ".crt" }

// ListenerKey returns the path of the key of ListenerCertificate.
func ListenerKey(hash string) string { return RunDir + "/listener-" + hash + ".key" }

// GatewayCertificate returns the path of the file with the certificate of a Gateway's listener and with its key. nginx
// replaces the ID by the value of a variable, so it notices a new file without a reload.
func GatewayCertificate(id string) string { return RunDir + "/certificate-" + id + ".pem" }

// NoCertificate is the ID of a certificate that belongs to no listener. nginx presents it to a client that asks for a
// name without a listener, because nginx cannot end such a handshake without an error in its log.
const NoCertificate = "none"

// PeerCertificate returns the path of the certificate that pods show to each other. hash is a hash of the
// certificate, its key and the authorities that the pods trust.
func PeerCertificate(hash string) string { return RunDir + "/peer-" + hash + ".crt" }

// PeerKey returns the path of the key of PeerCertificate.
func PeerKey(hash string) string { return RunDir + "/peer-" + hash + ".key" }

// PeerAuthority returns the path of the authorities that must have signed the certificates of other pods.
func PeerAuthority(hash string) string { return RunDir + "/peer-" + hash + "-ca.crt" }

// DiskDir returns the path at which a disk is mounted.
func DiskDir(disk string) string { return "/var/cache/cachenode/" + disk }

// OwnFolder is the folder on a disk, below its mount point, that contains everything that belongs to CacheNode: the
// cache, the owner's mark and the file of the probes. Other files on the disk, such as lost+found, belong to others.
const OwnFolder = "cachenode"

// PurgesState returns the path of the file that records which part of the journal of purges a disk has obeyed, and
// the generation of its keys.
func PurgesState(disk string) string { return DiskDir(disk) + "/" + OwnFolder + "/purges.json" }

// CacheDir returns the folder in which nginx stores a disk's cache files. The folder contains nothing else, because
// nginx's loader deletes files that it does not know.
func CacheDir(disk string) string { return DiskDir(disk) + "/" + OwnFolder + "/cache" }

// RefreshDir returns the folder for shared responses: several requests for the same expired object wait for one such
// response. nginx keeps each response there for some seconds.
func RefreshDir(disk string) string { return DiskDir(disk) + "/" + OwnFolder + "/refresh" }
