package storage

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// VolumePlan is what becomes of the volumes that the operator makes.
type VolumePlan struct {
	// Wanted are the volumes of the disks with a localPath: one a disk on each node.
	Wanted []*corev1.PersistentVolume
	// Offer are those whose claim is gone: they are to be available again.
	Offer []*corev1.PersistentVolume
	// Delete are those that nobody wants and no claim holds.
	Delete []*corev1.PersistentVolume
	// Taken says which paths another CacheNode has.
	Taken []string
}

// Volumes plans the volumes of a CacheNode. live are all that the operator has made, of other CacheNodes too; claims are
// those of this one. A nil node is one that is gone: whoever it was, its volumes go.
func Volumes(node *v1alpha1.CacheNode, hosts []corev1.Node, live []corev1.PersistentVolume, claims []corev1.PersistentVolumeClaim) VolumePlan {
	p := VolumePlan{}
	wanted := map[string]bool{}
	for d, disk := range node.Spec.Disks {
		if disk.LocalPath == nil {
			continue
		}
		for h := range hosts {
			volume := manifest.LocalVolume(node, disk, &hosts[h])
			wanted[volume.Name] = true
			if taken := owner(live, node, hosts[h].Name, disk.LocalPath.Path); taken != nil {
				p.Taken = append(p.Taken, fmt.Sprintf("spec.disks[%d].localPath.path: %s on node %s belongs to CacheNode %s/%s",
					d, disk.LocalPath.Path, hosts[h].Name, taken.Labels[naming.LabelNamespace], taken.Labels[naming.LabelInstance]))
				continue
			}
			p.Wanted = append(p.Wanted, volume)
		}
	}
	for i := range live {
		volume := &live[i]
		switch {
		case !isOf(volume, node) || !volume.DeletionTimestamp.IsZero():
		case volume.Labels[naming.LabelRole] == naming.RolePlaceholder:
			if isSpent(volume, claims) || !IsPlaceholderOf(node, volume) {
				p.Delete = append(p.Delete, volume)
			}
		case volume.Labels[naming.LabelRole] == naming.RoleScout: // those of a disk in the spec are the scouts' business
			if !slices.ContainsFunc(node.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == volume.Labels[naming.LabelDisk] }) {
				p.Delete = append(p.Delete, volume)
			}
		case !wanted[volume.Name]:
			if IsFree(volume) {
				p.Delete = append(p.Delete, volume)
			}
		case volume.Status.Phase == corev1.VolumeReleased && volume.Spec.ClaimRef != nil:
			p.Offer = append(p.Offer, volume)
		}
	}
	return p
}

// owner is a volume of another CacheNode that has a path on a node, or one that lies in it or around it.
func owner(live []corev1.PersistentVolume, node *v1alpha1.CacheNode, host, path string) *corev1.PersistentVolume {
	for i := range live {
		other := live[i].Annotations[naming.AnnotationPath] + "/"
		nested := strings.HasPrefix(path+"/", other) || strings.HasPrefix(other, path+"/")
		if !isOf(&live[i], node) && live[i].Annotations[naming.AnnotationNode] == host && other != "/" && nested {
			return &live[i]
		}
	}
	return nil
}

// IsPlaceholderOf is false for one that waits for a claim that cannot come any more.
func IsPlaceholderOf(node *v1alpha1.CacheNode, volume *corev1.PersistentVolume) bool {
	if volume.Status.Phase == corev1.VolumeBound || volume.Spec.ClaimRef == nil {
		return true
	}
	disk := volume.Labels[naming.LabelDisk]
	ordinal, ok := naming.Ordinal(node.Name, strings.TrimPrefix(volume.Spec.ClaimRef.Name, disk+"-"))
	return ok && ordinal < int(ptr.Deref(node.Spec.Replicas, 1)) &&
		slices.ContainsFunc(node.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == disk })
}

// IsFree is true for a volume that no claim holds.
func IsFree(volume *corev1.PersistentVolume) bool {
	return volume.Status.Phase != corev1.VolumeBound && (volume.Spec.ClaimRef == nil || volume.Status.Phase == corev1.VolumeReleased)
}

func isOf(volume *corev1.PersistentVolume, node *v1alpha1.CacheNode) bool {
	return volume.Labels[naming.LabelNamespace] == node.Namespace && volume.Labels[naming.LabelInstance] == node.Name
}

// isSpent is true for a placeholder whose claim is gone or has another volume.
func isSpent(volume *corev1.PersistentVolume, claims []corev1.PersistentVolumeClaim) bool {
	if volume.Status.Phase == corev1.VolumeReleased || volume.Spec.ClaimRef == nil {
		return true
	}
	return slices.ContainsFunc(claims, func(c corev1.PersistentVolumeClaim) bool {
		return c.Name == volume.Spec.ClaimRef.Name && c.DeletionTimestamp.IsZero() && c.Spec.VolumeName != "" && c.Spec.VolumeName != volume.Name
	})
}
