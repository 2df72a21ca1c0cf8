package manifest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// ScoutInput is everything from which a scout is made.
type ScoutInput struct {
	CacheNode *v1alpha1.CacheNode
	// Disk is the missing disk, which has a localPath. Pod is the cache pod that runs without the disk. Node is the node
	// on which the disk is missing.
	Disk v1alpha1.Disk
	Pod  string
	Node *corev1.Node
	ScoutImage
}

// ScoutImage is the image that scouts run, which is the operator's own.
type ScoutImage struct {
	Image      string
	PullPolicy corev1.PullPolicy
}

func (in ScoutInput) meta() metav1.ObjectMeta {
	owner := metav1.NewControllerRef(in.CacheNode, v1alpha1.GroupVersion.WithKind("CacheNode"))
	return metav1.ObjectMeta{
		Name:            naming.Scout(in.Disk.Name, in.Pod),
		Namespace:       in.CacheNode.Namespace,
		Labels:          naming.ScoutLabels(in.CacheNode.Name),
		OwnerReferences: []metav1.OwnerReference{*owner},
	}
}

// ScoutVolume returns a hostPath volume with the path of the missing disk, whether the disk is mounted or not. A
// local volume does not work: the kubelet creates a mount of its own for it. A disk that is mounted on the folder
// later propagates to that mount. When the pod ends, the kubelet unmounts the disk not only from the pod, but also
// from the node (tried on Kubernetes 1.36). A hostPath volume is mounted in the container only.
func ScoutVolume(in ScoutInput) *corev1.PersistentVolume {
	name := naming.Scout(in.Disk.Name, in.Pod)
	volume := volumeFor(naming.ScoutVolume(in.CacheNode.Namespace, name), in.Node)
	volume.Labels = naming.VolumeLabels(in.CacheNode.Namespace, in.CacheNode.Name, in.Disk.Name, naming.RoleScout)
	volume.Spec.StorageClassName = naming.LocalClass
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: in.Disk.Size}
	volume.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: in.CacheNode.Namespace, Name: name,
	}
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
		Path: in.Disk.LocalPath.Path, Type: new(corev1.HostPathDirectory),
	}}
	return volume
}

// ScoutClaim returns the claim for the scout's volume.
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

// Scout returns a pod that waits for a disk that cannot be mounted. The kubelet tries to start the pod until it
// succeeds. The pod ends when it has seen the disk.
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
				VolumeMounts: []corev1.VolumeMount{{
					Name:      in.Disk.Name,
					MountPath: dir,
					ReadOnly:  true,
					// With this mode, the container also sees a disk that is mounted later.
					MountPropagation: new(corev1.MountPropagationHostToContainer),
				}},
				SecurityContext: containerSecurity(),
			}},
			Volumes: []corev1.Volume{{Name: in.Disk.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: naming.Scout(in.Disk.Name, in.Pod)},
			}}},
		},
	}
}
