package manifest

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// agentInstaller returns the container that copies the agent from the operator's image into the pod.
func agentInstaller(image string, pullPolicy corev1.PullPolicy) corev1.Container {
	return corev1.Container{
		Name:            "install-agent",
		Image:           image,
		ImagePullPolicy: pullPolicy,
		Command:         []string{"/agent", "install", layout.AgentDir},
		Resources:       smallRequests(),
		VolumeMounts:    []corev1.VolumeMount{{Name: "cachenode-agent", MountPath: layout.AgentDir}},
		SecurityContext: containerSecurity(),
	}
}

// agentContainer returns the container of the agent. It uses nginx's image, so that the agent runs nginx -t with the
// same nginx. It starts before nginx and ends after nginx. If the agent dies, nginx continues to run.
func agentContainer(in PodInput) corev1.Container {
	mounts := append([]corev1.VolumeMount{
		{Name: "cachenode-agent", MountPath: layout.AgentDir, ReadOnly: true},
		{Name: "cachenode-config", MountPath: layout.ConfigDir, ReadOnly: true},
		{Name: "cachenode-pod", MountPath: layout.PodInfoDir, ReadOnly: true},
		{Name: "cachenode-tls", MountPath: layout.CertificateDir, ReadOnly: true},
		{Name: "cachenode-owner", MountPath: layout.OwnerDir, ReadOnly: true},
		{Name: "cachenode-purges", MountPath: layout.PurgesDir, ReadOnly: true},
		{Name: "cachenode-run", MountPath: layout.RunDir},
	}, cacheMounts(in)...)
	if in.TLS != nil {
		mounts = append(mounts, corev1.VolumeMount{Name: "cachenode-listener", MountPath: layout.ListenerDir, ReadOnly: true})
	}
	if in.Peers == v1alpha1.PeerTLSMutual {
		mounts = append(mounts, corev1.VolumeMount{Name: "cachenode-peer", MountPath: layout.PeerDir, ReadOnly: true})
	}
	if in.Gateways {
		mounts = append(mounts,
			corev1.VolumeMount{Name: "cachenode-certificates", MountPath: layout.CertificatesDir, ReadOnly: true})
	}
	get := func(path string) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(layout.PortMetrics)}}
	}
	resources := in.Pod.AgentResources
	if len(resources.Requests) == 0 && len(resources.Limits) == 0 && len(resources.Claims) == 0 {
		resources = smallRequests()
		resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(
			int64(agentMemory+agentMemoryEach*len(in.Disks)+agentMemoryOver)<<20, resource.BinarySI)
		resources.Limits = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(
			int64(agentMemoryMost+agentMemoryMostEach*len(in.Disks))<<20, resource.BinarySI)}
	}
	return corev1.Container{
		Name:            layout.AgentContainer,
		Image:           in.Pod.Image,
		ImagePullPolicy: in.Pod.ImagePullPolicy,
		Command:         supervise(layout.AgentDir+"/agent run", "TERM", ":"),
		Env:             AgentEnv(len(in.Disks)),
		RestartPolicy:   new(corev1.ContainerRestartPolicyAlways),
		Ports: []corev1.ContainerPort{
			{Name: layout.PortMetrics, ContainerPort: layout.MetricsPort, Protocol: corev1.ProtocolTCP},
			{Name: layout.PortAgent, ContainerPort: layout.AgentPort, Protocol: corev1.ProtocolTCP},
		},
		Resources:    resources,
		VolumeMounts: mounts,
		// The nginx container starts after the agent has a configuration for it.
		StartupProbe: &corev1.Probe{
			ProbeHandler: get("/started"), PeriodSeconds: 1, TimeoutSeconds: 2, FailureThreshold: 300,
		},
		LivenessProbe: &corev1.Probe{
			ProbeHandler: get("/healthz"), PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 3,
		},
		SecurityContext: containerSecurity(),
	}
}

// AgentEnv returns the environment variables of the agent in a pod with the given number of disks.
func AgentEnv(disks int) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "GOMEMLIMIT", Value: AgentMemoryLimit(disks)},
		// Two threads, so that a disk that blocks a read does not keep the agent from purging the other disks.
		{Name: "GOMAXPROCS", Value: "2"},
	}
}

// AgentMemoryLimit returns GOMEMLIMIT for an agent with the given number of disks. This soft limit makes Go's garbage
// collector keep the agent small.
func AgentMemoryLimit(disks int) string {
	return fmt.Sprintf("%dMiB", agentMemory+agentMemoryEach*disks)
}

// Parts of the agent's memory, in MiB. agentMemory is for the agent itself, and agentMemoryEach is for the index of
// each disk. agentMemoryOver is the memory beyond Go's soft limit while an index is rebuilt.
const (
	agentMemory     = 40
	agentMemoryEach = 6
	agentMemoryOver = 12
)

// The agent's memory limit in MiB. It is four times the soft limit, plus room for nginx -t, which runs in the agent's
// container. nginx -t needs 8 MiB, plus 24 MiB for an index of 4 GiB, the largest one by default. A rebuild of
// indexes needs agentMemoryOver more than the soft limit.
const (
	agentMemoryMost     = 4*agentMemory + 16
	agentMemoryMostEach = 4*agentMemoryEach + 32
)

func smallRequests() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}}
}

// memoryVolume is the name of the volume for the memory tier.
const memoryVolume = "cachenode-memory"

// Before returns what the operator has chosen for a CacheNode so far. previous is the text of the template in the
// ConfigMap. If there is no such text, Before uses the template of the StatefulSet. If there is no StatefulSet
// either, the CacheNode is new, and the result is the zero value.
func Before(previous string, set *appsv1.StatefulSet) effective.Before {
	var t Template
	switch {
	case json.Unmarshal([]byte(previous), &t) == nil && t.InputHash != "":
	case set == nil:
		return effective.Before{}
	default:
		t.Template = set.Spec.Template
	}
	before := effective.Before{Serving: effective.WithoutTier, Routing: v1alpha1.RoutingLocal}
	switch {
	case t.Template.Annotations[naming.AnnotationPeers] != "":
		before.Routing = v1alpha1.RoutingSharded
	case set != nil && ptr.Deref(set.Spec.Replicas, 1) <= 1:
		before.Routing = ""
	}
	switch {
	case slices.ContainsFunc(t.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == memoryVolume }):
		before.Serving = effective.WithTier
	case t.Template.Annotations[naming.AnnotationWorkers] != "":
		before.Serving = effective.WithWorkers
	}
	return before
}

// volumes returns the volumes that are not disks. Their names contain hyphens, which the names of disks cannot
// contain.
func volumes(in PodInput) []corev1.Volume {
	emptyDir := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	list := []corev1.Volume{
		{Name: "cachenode-config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: naming.ConfigMap(in.Name)},
		}}},
		{Name: "cachenode-pod", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{
				{
					Path:     layout.AnnotationsFile,
					FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations"},
				},
				{Path: layout.CPULimitFile, ResourceFieldRef: &corev1.ResourceFieldSelector{
					ContainerName: layout.Container, Resource: "limits.cpu", Divisor: resource.MustParse("1m"),
				}},
				{Path: layout.MemoryLimitFile, ResourceFieldRef: &corev1.ResourceFieldSelector{
					ContainerName: layout.Container, Resource: "limits.memory", Divisor: resource.MustParse("1"),
				}},
			},
		}}},
		// The operator's own key is not mounted into the pod.
		{Name: "cachenode-tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: naming.AgentSecret(in.Name),
			Items: []corev1.KeyToPath{
				{Key: naming.ServerCertificateKey, Path: naming.ServerCertificateKey},
				{Key: naming.ServerKeyKey, Path: naming.ServerKeyKey},
				{Key: naming.AuthorityKey, Path: naming.AuthorityKey},
			},
			DefaultMode: new(int32(0o440)),
		}}},
		// The volume is optional, so that pods also start while an older operator runs, which does not write these keys.
		{Name: "cachenode-owner", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: naming.AgentSecret(in.Name), Optional: new(true), DefaultMode: new(int32(0o440)),
			Items: []corev1.KeyToPath{
				{Key: naming.OwnerKeyKey, Path: naming.OwnerKeyKey},
				{Key: naming.OwnerLegacyKey, Path: naming.OwnerLegacyKey},
			},
		}}},
		purgesVolume(in.Name),
		{Name: "cachenode-agent", VolumeSource: emptyDir},
		{Name: "cachenode-run", VolumeSource: emptyDir},
	}
	if in.MemoryTier > 0 {
		list = append(list, corev1.Volume{Name: memoryVolume, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{
				Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(in.MemoryTier, resource.BinarySI),
			},
		}})
	}
	if in.Peers == v1alpha1.PeerTLSMutual {
		list = append(list, corev1.Volume{Name: "cachenode-peer", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{
				SecretName: naming.AgentSecret(in.Name), DefaultMode: new(int32(0o440)),
				Items: []corev1.KeyToPath{
					{Key: naming.PeerCertificateKey, Path: corev1.TLSCertKey},
					{Key: naming.PeerKeyKey, Path: corev1.TLSPrivateKeyKey},
					{Key: naming.PeerAuthorityKey, Path: naming.AuthorityKey},
				},
			},
		}})
	}
	if in.Gateways {
		list = append(list, certificatesVolume(in.Name))
	}
	if in.TLS != nil {
		list = append(list, corev1.Volume{Name: "cachenode-listener", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{
				SecretName: in.TLS.SecretName, DefaultMode: new(int32(0o440)),
				// The pods get nothing else from the Secret.
				Items: []corev1.KeyToPath{
					{Key: corev1.TLSCertKey, Path: corev1.TLSCertKey},
					{Key: corev1.TLSPrivateKeyKey, Path: corev1.TLSPrivateKeyKey},
				},
			},
		}})
	}
	return list
}
