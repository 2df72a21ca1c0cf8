package manifest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// ScoutInput is all that a scout depends on.
type ScoutInput struct {
	CacheNode *v1alpha1.CacheNode
	// Disk has a localPath; Pod is the cache pod that does without it, Host the node that it is missing on.
	Disk v1alpha1.Disk
	Pod  string
	Node *corev1.Node
	ScoutImage
}

// ScoutImage is what scouts run: the operator's own image.
type ScoutImage struct {
	Image      string
	PullPolicy corev1.PullPolicy
}

func (in ScoutInput) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: naming.Scout(in.Disk.Name, in.Pod), Namespace: in.CacheNode.Namespace, Labels: naming.ScoutLabels(in.CacheNode.Name),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(in.CacheNode, v1alpha1.GroupVersion.WithKind("CacheNode"))},
	}
}

// ScoutVolume is the path of the missing disk as it is, mounted or not. It is no local volume: of that the kubelet makes a
// mount of its own, to which a disk that is mounted on the folder later propagates, and which it takes away with the pod, from
// the node too (tried on Kubernetes 1.36). A hostPath volume is the container's alone.
func ScoutVolume(in ScoutInput) *corev1.PersistentVolume {
	name := naming.Scout(in.Disk.Name, in.Pod)
	volume := volumeFor(naming.ScoutVolume(in.CacheNode.Namespace, name), in.Node)
	volume.Labels = naming.VolumeLabels(in.CacheNode.Namespace, in.CacheNode.Name, in.Disk.Name, naming.RoleScout)
	volume.Spec.StorageClassName = naming.LocalClass
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: in.Disk.Size}
	volume.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: in.CacheNode.Namespace, Name: name}
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
		Path: in.Disk.LocalPath.Path, Type: new(corev1.HostPathDirectory),
	}}
	return volume
}

// ScoutClaim holds the volume of the scout.
func ScoutClaim(in ScoutInput) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: in.meta(),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: new(naming.LocalClass),
			VolumeMode:       new(corev1.PersistentVolumeFilesystem),
			VolumeName:       naming.ScoutVolume(in.CacheNode.Namespace, naming.Scout(in.Disk.Name, in.Pod)),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: in.Disk.Size},
			},
		},
	}
}

// Scout is a pod that waits for a disk that cannot be mounted: the kubelet tries again and again to start it, and it ends
// when it has seen that the disk is there.
func Scout(in ScoutInput) *corev1.Pod {
	const dir = "/disk"
	command := []string{"/agent"}
	if in.Disk.LocalPath.RequireMountPoint != nil && !*in.Disk.LocalPath.RequireMountPoint {
		command = append(command, "-folder")
	}
	meta := in.meta()
	meta.Annotations = map[string]string{naming.AnnotationInput: strings.Join(command, " ")}
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta,
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			RestartPolicy:                 corev1.RestartPolicyOnFailure,
			TerminationGracePeriodSeconds: new(int64(1)),
			Tolerations:                   in.CacheNode.Spec.Pod.Tolerations,
			ImagePullSecrets:              in.CacheNode.Spec.Pod.ImagePullSecrets,
			PriorityClassName:             in.CacheNode.Spec.Pod.PriorityClassName,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   new(true),
				RunAsUser:      new(int64(nginxID)),
				RunAsGroup:     new(int64(nginxID)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "scout", Image: in.Image, ImagePullPolicy: in.PullPolicy,
				Command: append(command, "await", dir),
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
				}},
				// A disk that is mounted later is then seen in the container too.
				VolumeMounts:    []corev1.VolumeMount{{Name: in.Disk.Name, MountPath: dir, ReadOnly: true, MountPropagation: new(corev1.MountPropagationHostToContainer)}},
				SecurityContext: containerSecurity(),
			}},
			Volumes: []corev1.Volume{{Name: in.Disk.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: naming.Scout(in.Disk.Name, in.Pod)},
			}}},
		},
	}
}
