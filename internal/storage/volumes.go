package storage

import (
	"fmt"
	"path"
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
	// Taken says which paths are, or lie in or around, another volume's.
	Taken []string
}

// Volumes plans the volumes of a CacheNode. live are all of the cluster, of other CacheNodes and of strangers too; claims are
// those of this one. A CacheNode that is gone is one without a spec: its volumes go.
func Volumes(cacheNode *v1alpha1.CacheNode, nodes []corev1.Node, live []corev1.PersistentVolume, claims []corev1.PersistentVolumeClaim) VolumePlan {
	p := VolumePlan{}
	wanted := map[string]bool{}
	for d, disk := range cacheNode.Spec.Disks {
		if disk.LocalPath == nil {
			continue
		}
		for h := range nodes {
			volume := manifest.LocalVolume(cacheNode, disk, &nodes[h])
			wanted[volume.Name] = true
			if other := overlapping(live, cacheNode, &nodes[h], disk.LocalPath.Path); other != "" {
				p.Taken = append(p.Taken, fmt.Sprintf("spec.disks[%d].localPath.path: %s on node %s %s", d, disk.LocalPath.Path, nodes[h].Name, other))
				continue
			}
			p.Wanted = append(p.Wanted, volume)
		}
	}
	for i := range live {
		volume := &live[i]
		switch {
		case !isOf(volume, cacheNode) || !volume.DeletionTimestamp.IsZero():
		case volume.Labels[naming.LabelRole] == naming.RolePlaceholder:
			if isSpent(volume, claims) || !IsPlaceholderOf(cacheNode, volume) {
				p.Delete = append(p.Delete, volume)
			}
		case volume.Labels[naming.LabelRole] == naming.RoleScout: // those of a disk in the spec are the scouts' business
			if !slices.ContainsFunc(cacheNode.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == volume.Labels[naming.LabelDisk] }) {
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

// overlapping says which volume has a path on a node, lies in it or has it within; "" if there is none. Whoever writes to the
// outer one could lead the inner one to any folder of the node by a symbolic link.
func overlapping(live []corev1.PersistentVolume, cacheNode *v1alpha1.CacheNode, node *corev1.Node, folder string) string {
	for i := range live {
		volume := &live[i]
		other := pathOf(volume)
		if other == "" || !isOn(volume, node) || (!isWithin(folder, other) && !isWithin(other, folder)) {
			continue
		}
		switch {
		case isOf(volume, cacheNode) && other == folder:
		case isOf(volume, cacheNode):
			return fmt.Sprintf("overlaps with %s, the volume of this CacheNode's disk %s", other, volume.Labels[naming.LabelDisk])
		case volume.Labels[naming.LabelManagedBy] == naming.FieldManager:
			return fmt.Sprintf("belongs to CacheNode %s/%s", volume.Labels[naming.LabelNamespace], volume.Labels[naming.LabelInstance])
		default:
			return fmt.Sprintf("belongs to PersistentVolume %s", volume.Name)
		}
	}
	return ""
}

// pathOf is the folder on a node that a volume leads to; "" if it leads to none, or is a placeholder.
func pathOf(volume *corev1.PersistentVolume) string {
	switch {
	case volume.Labels[naming.LabelRole] == naming.RolePlaceholder:
		return ""
	case volume.Spec.Local != nil:
		return path.Clean(volume.Spec.Local.Path)
	case volume.Spec.HostPath != nil:
		return path.Clean(volume.Spec.HostPath.Path)
	}
	return ""
}

// isOn is true for a volume of a node, and for one that does not say of which single node it is.
func isOn(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	of := HostOf(volume)
	return of == "" || of == manifest.Hostname(node)
}

// isWithin is true for a folder that is another or lies in it.
func isWithin(inner, outer string) bool {
	return inner == outer || strings.HasPrefix(inner, strings.TrimSuffix(outer, "/")+"/")
}

// IsPlaceholderOf is false for one that waits for a claim that cannot come any more.
func IsPlaceholderOf(cacheNode *v1alpha1.CacheNode, volume *corev1.PersistentVolume) bool {
	if volume.Status.Phase == corev1.VolumeBound || volume.Spec.ClaimRef == nil {
		return true
	}
	disk := volume.Labels[naming.LabelDisk]
	ordinal, ok := naming.Ordinal(cacheNode.Name, strings.TrimPrefix(volume.Spec.ClaimRef.Name, disk+"-"))
	return ok && ordinal < int(ptr.Deref(cacheNode.Spec.Replicas, 1)) &&
		slices.ContainsFunc(cacheNode.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == disk })
}

// IsFree is true for a volume that no claim holds.
func IsFree(volume *corev1.PersistentVolume) bool {
	return volume.Status.Phase != corev1.VolumeBound && (volume.Spec.ClaimRef == nil || volume.Status.Phase == corev1.VolumeReleased)
}

func isOf(volume *corev1.PersistentVolume, cacheNode *v1alpha1.CacheNode) bool {
	return volume.Labels[naming.LabelNamespace] == cacheNode.Namespace && volume.Labels[naming.LabelInstance] == cacheNode.Name
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
