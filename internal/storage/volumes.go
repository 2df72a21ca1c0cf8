package storage

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// maxCreate is the maximum number of volumes that one pass creates. This limit prevents that one CacheNode blocks a
// worker of the operator for long.
const maxCreate = 64

// planVolumes decides which volumes of disks with a localPath to create, to offer again and to delete. For a CacheNode
// that no longer exists, the caller passes an empty spec, so its volumes are deleted.
func (p *plan) planVolumes() {
	nodes, needed, err := p.volumeNodes()
	if err != nil {
		return // followNodes reports it
	}
	if _, after := p.cannotBePlaced(); len(nodes) > 0 {
		p.again(after)
	}
	wanted := map[string]bool{}
	room, lacking := p.room(), 0
	for n := range nodes {
		create := p.volumesOn(&nodes[n], wanted)
		switch {
		case p.MaxVolumes == 0 || len(create) <= room:
			p.Follow.Create = append(p.Follow.Create, create...)
			room -= len(create)
		case n < needed: // volumes on later nodes would only give the scheduler a choice
			lacking += len(create)
		}
	}
	if lacking > 0 {
		p.Follow.TooMany = fmt.Sprintf("the CacheNodes of namespace %s may have %d volumes together, and this one needs %d "+
			"for which there is no room: remove disks or nodes, or raise "+
			"the chart's maxVolumesPerNamespace (the operator's --max-volumes-per-namespace)",
			p.CacheNode.Namespace, p.MaxVolumes, lacking)
	}
	for _, volume := range p.Volumes {
		if p.isOwn(volume) && volume.DeletionTimestamp.IsZero() {
			p.keepVolume(volume, wanted[volume.Name])
		}
	}
	// Every CacheNode creates its volumes in the order of their names. So if two CacheNodes want the same paths at the
	// same time, the later one finds that the first path is already taken, and stops there.
	byName := func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) }
	for _, list := range [][]*corev1.PersistentVolume{
		p.Follow.Create, p.Follow.Update, p.Keep.Offer, p.Follow.Delete,
	} {
		slices.SortFunc(list, byName)
	}
	if p.Follow.More = len(p.Follow.Create) > maxCreate; p.Follow.More {
		p.Follow.Create = p.Follow.Create[:maxCreate]
	}
}

// volumesOn adds the names of the volumes that a node must have to the map wanted. It returns the volumes that must be
// created.
func (p *plan) volumesOn(node *corev1.Node, wanted map[string]bool) (create []*corev1.PersistentVolume) {
	for d, disk := range p.CacheNode.Spec.Disks {
		if disk.LocalPath == nil {
			continue
		}
		volume := manifest.LocalVolume(p.CacheNode, disk, node)
		wanted[volume.Name] = true
		if other := p.overlapping(node, disk.LocalPath.Path); other != "" {
			p.Follow.Taken = append(p.Follow.Taken, fmt.Sprintf("spec.disks[%d].localPath.path: %s on node %s %s",
				d, disk.LocalPath.Path, node.Name, other))
		} else if live := p.Volumes[volume.Name]; live == nil && p.All != nil {
			create = append(create, volume)
		} else if live != nil && p.isOwn(live) && live.DeletionTimestamp.IsZero() {
			p.Follow.Update = append(p.Follow.Update, volume)
		}
	}
	return create
}

// room returns how many more volumes the namespace may have.
func (p *plan) room() int {
	room := p.MaxVolumes
	for i := range p.All {
		labels := p.All[i].Labels
		if labels[naming.LabelManagedBy] == naming.FieldManager &&
			labels[naming.LabelNamespace] == p.CacheNode.Namespace && labels[naming.LabelRole] == naming.RoleDisk {
			room--
		}
	}
	return max(room, 0)
}

// keepVolume decides what happens to an existing volume.
func (p *plan) keepVolume(volume *corev1.PersistentVolume, wanted bool) {
	switch role := volume.Labels[naming.LabelRole]; {
	case role == naming.RolePlaceholder:
		if isSpent(volume, p.Claims) || !IsAwaited(p.CacheNode, volume) {
			p.Follow.Delete = append(p.Follow.Delete, volume)
		}
	case role == naming.RoleScout: // spendScouts handles the volumes for disks in the spec
		if !p.hasDisk(volume.Labels[naming.LabelDisk]) {
			p.Follow.Delete = append(p.Follow.Delete, volume)
		}
	case !wanted:
		if isFree(volume) {
			p.Follow.Delete = append(p.Follow.Delete, volume)
		}
	case volume.Status.Phase == corev1.VolumeReleased && volume.Spec.ClaimRef != nil:
		p.Keep.Offer = append(p.Keep.Offer, volume)
	}
}

// lacksVolumes reports whether some wanted volumes do not exist.
func (s State) lacksVolumes() bool {
	nodes, _, err := s.volumeNodes()
	if err != nil {
		return false
	}
	for _, disk := range s.CacheNode.Spec.Disks {
		for n := range nodes {
			if disk.LocalPath != nil && s.Volumes[naming.Volume(nodes[n].Name, disk.LocalPath.Path)] == nil {
				return true
			}
		}
	}
	return false
}

// overlapping checks whether a node has another volume whose path is the folder, lies in it or contains it. It returns
// a text that names the owner of this volume, or "" if there is no such volume. A user who can write to the outer
// folder could use a symbolic link to point the inner folder at any folder of the node.
func (s State) overlapping(node *corev1.Node, folder string) string {
	for i := range s.All {
		volume := &s.All[i]
		other := pathOf(volume)
		isNamesake := volume.Name == naming.Volume(node.Name, folder)
		if !isNamesake && (other == "" || !isOn(volume, node) || (!isWithin(folder, other) && !isWithin(other, folder))) {
			continue
		}
		switch {
		case s.isOwn(volume) && isNamesake:
		case s.isOwn(volume) && other == folder:
		case s.isOwn(volume):
			return fmt.Sprintf("overlaps with %s, the volume of this CacheNode's disk %s",
				other, volume.Labels[naming.LabelDisk])
		case volume.Labels[naming.LabelManagedBy] == naming.FieldManager:
			return fmt.Sprintf("belongs to CacheNode %s/%s",
				volume.Labels[naming.LabelNamespace], volume.Labels[naming.LabelInstance])
		default:
			return "belongs to PersistentVolume " + volume.Name
		}
	}
	return ""
}

// pathOf returns the folder of a volume on its node. It is "" for a volume without a folder and for a placeholder.
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

// isOn reports whether a volume may be on a node. It returns true for a volume that is not tied to a single node.
func isOn(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	of := hostnameOf(volume)
	return of == "" || of == manifest.Hostname(node)
}

// isWithin reports whether the inner folder is the outer one or lies in it.
func isWithin(inner, outer string) bool {
	return inner == outer || strings.HasPrefix(inner, strings.TrimSuffix(outer, "/")+"/")
}

// IsAwaited returns false for a placeholder whose claim will not be created, because the spec no longer asks for the
// claim's pod or disk.
func IsAwaited(cacheNode *v1alpha1.CacheNode, volume *corev1.PersistentVolume) bool {
	if volume.Status.Phase == corev1.VolumeBound || volume.Spec.ClaimRef == nil {
		return true
	}
	disk := volume.Labels[naming.LabelDisk]
	ordinal, ok := naming.Ordinal(cacheNode.Name, strings.TrimPrefix(volume.Spec.ClaimRef.Name, disk+"-"))
	s := State{CacheNode: cacheNode}
	return ok && ordinal < s.replicas() && s.hasDisk(disk)
}

// isFree reports whether a volume belongs to no claim, or only to a claim that is gone.
func isFree(volume *corev1.PersistentVolume) bool {
	return volume.Status.Phase != corev1.VolumeBound &&
		(volume.Spec.ClaimRef == nil || volume.Status.Phase == corev1.VolumeReleased)
}

// isOwn reports whether the operator created a volume for this CacheNode.
func (s State) isOwn(volume *corev1.PersistentVolume) bool {
	return volume.Labels[naming.LabelNamespace] == s.CacheNode.Namespace &&
		volume.Labels[naming.LabelInstance] == s.CacheNode.Name
}

// isSpent reports whether the claim of a placeholder is gone, or is bound to another volume.
func isSpent(volume *corev1.PersistentVolume, claims []corev1.PersistentVolumeClaim) bool {
	if volume.Status.Phase == corev1.VolumeReleased || volume.Spec.ClaimRef == nil {
		return true
	}
	return slices.ContainsFunc(claims, func(c corev1.PersistentVolumeClaim) bool {
		return c.Name == volume.Spec.ClaimRef.Name && c.DeletionTimestamp.IsZero() &&
			c.Spec.VolumeName != "" && c.Spec.VolumeName != volume.Name
	})
}
