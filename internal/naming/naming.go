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
	// AnnotationConfigRevision, on a pod, is the revision of the configuration that it was made with.
	AnnotationConfigRevision = "cachenode.io/config-revision"
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
	// PortHTTP and PortPrivate are the ports' names.
	PortHTTP    = "http"
	PortPrivate = "private"
)

// Paths in a pod. Only those of emptyDirs and disks are writable.
const (
	// ConfigDir has the files of the ConfigMap.
	ConfigDir = "/etc/cachenode"
	// RunDir has the pid file and nginx's temporary files.
	RunDir = "/run/cachenode"
	// CAFile is the origin's CA bundle, if there is one.
	CAFile = ConfigDir + "/" + CAKey
	// ConfigFile is nginx's configuration.
	ConfigFile = ConfigDir + "/" + ConfigKey
	// PIDFile holds the process id of nginx's master.
	PIDFile = RunDir + "/nginx.pid"
)

// Keys of the ConfigMap.
const (
	ConfigKey = "nginx.conf"
	CAKey     = "ca.crt"
)

// Container is the name of the container that nginx runs in.
const Container = "nginx"

// DiskDir is where a disk is mounted.
func DiskDir(disk string) string { return "/var/cache/cachenode/" + disk }

// CacheDir is where nginx keeps a disk's cache files: a folder below the mount, so that lost+found is none of nginx's.
func CacheDir(disk string) string { return DiskDir(disk) + "/cache" }

// Pool is the name of a disk's thread pool.
func Pool(disk string) string { return "pool_" + disk }

// Zone is the name of a disk's cache and keys zone.
func Zone(disk string) string { return "cache_" + disk }

// Headless is the name of the StatefulSet's own Service.
func Headless(cacheNode string) string { return cacheNode + "-pods" }

// ConfigMap is the name of the ConfigMap with a revision of the configuration.
func ConfigMap(cacheNode, revision string) string { return cacheNode + "-config-" + revision }

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
