package manifest

import (
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

const (
	// nginxID is the user ID and group ID of nginx in the stock image. It works with any image, because the
	// configuration sets all paths.
	nginxID = 101
	// deregistrationSeconds is how long a stopping pod still accepts connections, so that the Services can stop routing
	// to it.
	deregistrationSeconds = 5
)

// supervise returns a shell command that runs a program and starts it again when it ends by itself. If the shell
// receives TERM, INT or QUIT, it sends a signal to the program and does not start the program again. The parameter stop
// is the name of this signal. The program must be restarted within its container. The runtime cannot restart a
// container while a volume of the pod is dead, because it checks each volume. The parameter before is a command that
// the shell runs before each start of the program. If the shell receives a signal during this command, it does not
// start the program.
func supervise(program, stop, before string) []string {
	const script = `trap 'stop=1; [ -z "$child" ] || kill -%[2]s $child' TERM INT QUIT
while [ -z "$stop" ]; do
  child= status=1
  %[3]s
  [ -z "$stop" ] || break
  %[1]s & child=$!
  [ -z "$stop" ] || kill -%[2]s $child # the trap did not know the child yet
  while kill -0 $child 2>/dev/null; do wait $child; status=$?; done
  [ -n "$stop" ] || { echo "%[1]s ended with status $status and is started again" >&2; sleep 1; }
done
exit $status`
	return []string{"/bin/sh", "-c", fmt.Sprintf(script, program, stop, before)}
}

// beforeNginx kills the nginx processes that a killed master has left behind. It also deletes the old sockets, because
// a new nginx could not listen on them. It raises the limit on open files as far as the container allows:
// worker_rlimit_nofile applies to workers only.
var beforeNginx = `for p in /proc/[0-9]*; do ` +
	`case "$(tr '\0' ' ' <$p/cmdline)" in "nginx: "*) kill -KILL ${p#/proc/};; esac; done 2>/dev/null
  rm -f ` + layout.NginxSockets + `
  ulimit -n "$(ulimit -H -n)"`

func podTemplate(in PodInput, hash string, images Images, revision string) corev1.PodTemplateSpec {
	pod := in.Pod
	labels := naming.Labels(in.Name)
	for key, value := range pod.Labels {
		if _, own := labels[key]; !own {
			labels[key] = value
		}
	}
	annotations := maps.Clone(pod.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[naming.AnnotationRevision], annotations[naming.AnnotationInput] = revision, hash
	if in.Restart != "" {
		annotations[v1alpha1.AnnotationRestart] = in.Restart
	}
	if in.WorkersPerCPU > 0 {
		annotations[naming.AnnotationWorkers] = strconv.Itoa(int(in.WorkersPerCPU))
	}
	if in.Peers != "" {
		annotations[naming.AnnotationPeers] = string(in.Peers)
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			ShareProcessNamespace:         new(true), // the agent signals nginx
			EnableServiceLinks:            new(false),
			TerminationGracePeriodSeconds: pod.TerminationGracePeriodSeconds,
			NodeSelector:                  pod.NodeSelector,
			Tolerations:                   pod.Tolerations,
			Affinity:                      affinity(in),
			TopologySpreadConstraints:     topologySpread(in),
			PriorityClassName:             pod.PriorityClassName,
			ImagePullSecrets:              pod.ImagePullSecrets,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true),
				RunAsUser:    new(int64(nginxID)),
				RunAsGroup:   new(int64(nginxID)),
				FSGroup:      new(int64(nginxID)),
				// The files of a cache of one terabyte must not be chowned at every start.
				FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			InitContainers: []corev1.Container{agentInstaller(images.Agent, images.AgentPullPolicy), agentContainer(in)},
			Containers:     []corev1.Container{nginxContainer(in)},
			Volumes:        volumes(in),
		},
	}
}

func nginxContainer(in PodInput) corev1.Container {
	return corev1.Container{
		Name:            layout.Container,
		Image:           in.Pod.Image,
		ImagePullPolicy: in.Pod.ImagePullPolicy,
		// On QUIT, nginx finishes its responses; on TERM, it cuts them off. The image's own stop signal may be another one.
		Command:      supervise("nginx -c "+layout.ConfigFile+" -e stderr", "QUIT", beforeNginx),
		Ports:        nginxPorts(in),
		Resources:    resources(in),
		VolumeMounts: append([]corev1.VolumeMount{{Name: "cachenode-run", MountPath: layout.RunDir}}, cacheMounts(in)...),
		// The probe asks the agent, and needs no connection of nginx. So it also works while clients use all connections.
		ReadinessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/ready", Port: intstr.FromInt32(layout.MetricsPort),
			}},
			InitialDelaySeconds: 1,
			PeriodSeconds:       2,
			TimeoutSeconds:      2,
			FailureThreshold:    3,
		},
		// The kernel accepts the probe's connection, because the master holds the listening socket. So the pod is not
		// killed when a disk blocks a worker. A killed pod would also lose the requests for the other disks.
		LivenessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{
				Port: intstr.FromString(layout.PortPrivate),
			}},
			InitialDelaySeconds: 10,
			PeriodSeconds:       10,
			TimeoutSeconds:      5,
			FailureThreshold:    3,
		},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Sleep: &corev1.SleepAction{Seconds: deregistrationSeconds},
		}},
		SecurityContext: containerSecurity(),
	}
}

func nginxPorts(in PodInput) []corev1.ContainerPort {
	ports := []corev1.ContainerPort{
		{Name: layout.PortHTTP, ContainerPort: in.Port, Protocol: corev1.ProtocolTCP},
		{Name: layout.PortPrivate, ContainerPort: layout.PrivatePort, Protocol: corev1.ProtocolTCP},
	}
	if in.TLS != nil {
		ports = append(ports, corev1.ContainerPort{
			Name: layout.PortHTTPS, ContainerPort: ptr.Deref(in.TLS.Port, 0), Protocol: corev1.ProtocolTCP,
		})
	}
	if in.Peers != "" {
		ports = append(ports,
			corev1.ContainerPort{Name: layout.PortLookup, ContainerPort: layout.LookupPort, Protocol: corev1.ProtocolTCP},
			corev1.ContainerPort{Name: layout.PortPeer, ContainerPort: layout.PeerPort, Protocol: corev1.ProtocolTCP})
	}
	return ports
}

// cacheMounts returns the mounts of the disks and of the memory tier.
func cacheMounts(in PodInput) []corev1.VolumeMount {
	mounts := diskMounts(in)
	if in.MemoryTier > 0 {
		mounts = append(mounts, corev1.VolumeMount{Name: memoryVolume, MountPath: layout.MemoryTierDir})
	}
	return mounts
}

func diskMounts(in PodInput) []corev1.VolumeMount {
	var mounts []corev1.VolumeMount
	for _, d := range in.Disks {
		mounts = append(mounts, corev1.VolumeMount{Name: d.Name, MountPath: layout.DiskDir(d.Name)})
	}
	return mounts
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// resources returns the resources of the spec. If the spec names none, it returns requests for the minimum that nginx
// needs.
func resources(in PodInput) corev1.ResourceRequirements {
	r := in.Pod.Resources
	if len(r.Requests) > 0 || len(r.Limits) > 0 || len(r.Claims) > 0 {
		return r
	}
	const besidesZones = 64 << 20
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("100m"),
		corev1.ResourceMemory: *resource.NewQuantity(in.keysZones()+in.MemoryTier+besidesZones, resource.BinarySI),
	}}
}

// affinity returns the affinity of the spec. With one pod on each node, it also keeps the pods on different nodes.
func affinity(in PodInput) *corev1.Affinity {
	if !in.PerNode {
		return in.Pod.Affinity
	}
	affinity := in.Pod.Affinity.DeepCopy()
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if affinity.PodAntiAffinity == nil {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	terms := &affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*terms = append(*terms, corev1.PodAffinityTerm{
		TopologyKey:   corev1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: naming.PodSelector(in.Name)},
	})
	return affinity
}

// topologySpread returns the constraints of the spec. If the spec has none, the scheduler spreads the pods evenly
// over nodes as far as possible.
func topologySpread(in PodInput) []corev1.TopologySpreadConstraint {
	selector := &metav1.LabelSelector{MatchLabels: naming.PodSelector(in.Name)}
	if len(in.Pod.TopologySpreadConstraints) == 0 {
		return []corev1.TopologySpreadConstraint{{
			MaxSkew:           1,
			TopologyKey:       corev1.LabelHostname,
			WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector:     selector,
		}}
	}
	var constraints []corev1.TopologySpreadConstraint
	for _, c := range in.Pod.TopologySpreadConstraints {
		if c.LabelSelector == nil {
			c.LabelSelector = selector
		}
		constraints = append(constraints, c)
	}
	return constraints
}
