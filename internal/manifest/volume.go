package manifest

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// LocalClass returns the StorageClass of the volumes that the operator makes. All CacheNodes share it, and it stays
// when they are deleted.
func LocalClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   naming.LocalClass,
			Labels: map[string]string{naming.LabelName: naming.Application, naming.LabelManagedBy: naming.FieldManager},
		},
		Provisioner:       "kubernetes.io/no-provisioner",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

// LocalVolume returns the PersistentVolume for a disk with a localPath on a node. The volume has no owner, because it
// belongs to no namespace. It has no finalizer, so that it can be deleted when the operator is gone.
func LocalVolume(cacheNode *v1alpha1.CacheNode, disk v1alpha1.Disk, node *corev1.Node) *corev1.PersistentVolume {
	volume := volumeFor(naming.Volume(node.Name, disk.LocalPath.Path), node)
	volume.Labels = naming.VolumeLabels(cacheNode.Namespace, cacheNode.Name, disk.Name, naming.RoleDisk)
	volume.Annotations[naming.AnnotationPath] = disk.LocalPath.Path
	volume.Spec.StorageClassName = naming.LocalClass
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: disk.Size}
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		Local: &corev1.LocalVolumeSource{Path: disk.LocalPath.Path},
	}
	return volume
}

// Placeholder returns an empty PersistentVolume in place of a volume that cannot be mounted. It is reserved for the
// given claim. It is on the node of the missing disk, because the pod's other disks are there.
func Placeholder(
	cacheNode *v1alpha1.CacheNode, claim *corev1.PersistentVolumeClaim, disk string, node *corev1.Node,
) *corev1.PersistentVolume {
	volume := volumeFor(naming.Placeholder(claim.Namespace, claim.Name), node)
	volume.Labels = naming.VolumeLabels(cacheNode.Namespace, cacheNode.Name, disk, naming.RolePlaceholder)
	if claim.Spec.StorageClassName != nil {
		volume.Spec.StorageClassName = *claim.Spec.StorageClassName
	}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *claimSize(claim)}
	volume.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
	}
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
		Path: naming.PlaceholderPath, Type: new(corev1.HostPathDirectoryOrCreate),
	}}
	return volume
}

func claimSize(claim *corev1.PersistentVolumeClaim) *resource.Quantity {
	return claim.Spec.Resources.Requests.Storage()
}

// volumeFor returns the fields that all volumes on a node have in common.
func volumeFor(name string, node *corev1.Node) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{naming.AnnotationNode: node.Name}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			VolumeMode:                    new(corev1.PersistentVolumeFilesystem),
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{Hostname(node)},
					}},
				}},
			}},
		},
	}
}

// Hostname returns the value of the node label by which volumes are tied to the node. The kubelet may set another
// value than the node's name.
func Hostname(node *corev1.Node) string {
	if name := node.Labels[corev1.LabelHostname]; name != "" {
		return name
	}
	return node.Name
}
