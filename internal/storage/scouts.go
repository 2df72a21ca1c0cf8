package storage

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// scout makes sure that each missing disk with a localPath has a scout. The scout's pod starts when the path exists,
// and ends when a disk is mounted on the path. Existing objects of a scout are not updated. If the wanted pod of a
// scout differs from the existing pod, the existing pod is deleted and then recreated.
func (p *plan) scout() {
	needed := map[string]bool{}
	for _, m := range p.Missing {
		disk, node := p.localDisk(m.Disk), p.node(m.Node)
		if disk == nil || node == nil {
			continue
		}
		// This code runs before the spec is validated. So a scout may look only at a path for which this CacheNode already
		// has a volume.
		path := disk.LocalPath.Path
		if p.Volumes[naming.Volume(node.Name, path)] == nil || (p.Allowed != nil && !p.Allowed(path)) {
			continue
		}
		in := manifest.ScoutInput{CacheNode: p.CacheNode, Disk: *disk, Pod: m.Pod, Node: node, ScoutImage: p.Scout}
		p.applyScout(in, needed)
	}
	p.spendScouts(needed)
}

func (p *plan) applyScout(in manifest.ScoutInput, needed map[string]bool) {
	volume, claim, pod := manifest.ScoutVolume(in), manifest.ScoutClaim(in), manifest.Scout(in)
	needed[volume.Name], needed[claim.Name] = true, true
	if p.Volumes[volume.Name] == nil {
		p.Keep.Scouts = append(p.Keep.Scouts, volume)
	}
	if find(p.Scouts.Claims, claim.Name) == nil {
		p.Keep.Scouts = append(p.Keep.Scouts, claim)
	}
	live := find(p.Scouts.Pods, pod.Name)
	switch {
	case live == nil:
		p.Keep.Scouts = append(p.Keep.Scouts, pod)
	case live.Annotations[naming.AnnotationInput] != pod.Annotations[naming.AnnotationInput]:
		p.spend(live)
	}
}

// spendScouts plans the deletion of objects of scouts. It deletes the objects that are no longer needed, and the pods
// and volumes that must be recreated.
func (p *plan) spendScouts(needed map[string]bool) {
	for i := range p.Scouts.Pods {
		if pod := &p.Scouts.Pods[i]; !needed[pod.Name] || pod.Status.Phase == corev1.PodFailed {
			p.spend(pod)
		}
	}
	for i := range p.Scouts.Claims {
		if claim := &p.Scouts.Claims[i]; !needed[claim.Name] {
			p.spend(claim)
		}
	}
	for name, volume := range p.Volumes {
		if volume.Labels[naming.LabelRole] == naming.RoleScout &&
			(!needed[name] || volume.Status.Phase == corev1.VolumeReleased) {
			p.spend(volume)
		}
	}
}

func (p *plan) spend(object client.Object) {
	if object.GetDeletionTimestamp().IsZero() {
		p.Keep.Spent = append(p.Keep.Spent, object)
	}
}

// back returns the missing disks that scouts have found.
func (s State) back() map[PodDisk]bool {
	back := map[PodDisk]bool{}
	for _, m := range s.missing() {
		pod := find(s.Scouts.Pods, naming.Scout(m.Disk, m.Pod))
		back[m.PodDisk] = pod != nil && pod.Status.Phase == corev1.PodSucceeded
	}
	return back
}

// find returns the object with a name; nil if there is none.
func find[T any, P interface {
	*T
	client.Object
}](list []T, name string) P {
	for i := range list {
		if object := P(&list[i]); object.GetName() == name {
			return object
		}
	}
	return nil
}
