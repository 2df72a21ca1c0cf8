package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// outOfUse contains the facts from which it describes the disks that pods do not use. These are disks that failed, and
// disks that a placeholder replaces.
type outOfUse struct {
	pods    []Pod
	disks   []v1alpha1.Disk
	missing []storage.Missing
}

func (f Facts) outOfUse() outOfUse {
	return outOfUse{pods: f.Pods, disks: f.CacheNode.Spec.Disks, missing: f.Missing}
}

// message returns what the agent reports about a disk. In two cases, it returns what happens to the disk instead: a
// placeholder replaces the disk, or the disk contains an abandoned foreign cache.
func (o outOfUse) message(pod string, d agentapi.DiskReport) string {
	for _, m := range o.missing {
		if m.Pod == pod && m.Disk == d.Name {
			return o.describeMissing(m)
		}
	}
	if d.Reason == v1alpha1.DiskForeignCache && o.isAbandoned(pod, d) {
		return fmt.Sprintf("holds the cache of CacheNode %s, which no longer exists: "+
			"that cache is deleted, and then the disk is used", d.ForeignOwner)
	}
	return d.Message
}

// isAbandoned returns true for a disk with a foreign cache that the pod must delete, because the CacheNode of this
// cache no longer exists.
func (o outOfUse) isAbandoned(pod string, d agentapi.DiskReport) bool {
	for _, p := range o.pods {
		if p.Name == pod {
			return slices.Contains(strings.Split(p.Annotations[naming.AnnotationEmpty], ","), d.Name+"="+d.ForeignOwner)
		}
	}
	return false
}

// failed returns a description of each failed disk, with the reason and, for some reasons, with what a person can do.
func (o outOfUse) failed() []string {
	var list []string
	for _, p := range o.pods {
		for _, d := range p.disks() {
			missing := slices.ContainsFunc(o.missing, func(m storage.Missing) bool {
				return m.Pod == p.Name && m.Disk == d.Name
			})
			if d.State == v1alpha1.DiskFailed && !missing {
				list = append(list, o.describe(p, d))
			}
		}
	}
	slices.Sort(list)
	return list
}

func (o outOfUse) describe(p Pod, d agentapi.DiskReport) string {
	text := fmt.Sprintf("%s: %s is out of use (%s)", p.Name, d.Name, d.Reason)
	if d.Reason == v1alpha1.DiskForeignCache {
		return text + ": it " + o.message(p.Name, d)
	}
	if d.NeedsNewPod {
		text += fmt.Sprintf("; to repair it: kubectl cordon %s, kubectl cachenode disk readmit %s %s, "+
			"repair the disk while the pod is pending, kubectl uncordon %s",
			p.Spec.NodeName, p.Name, d.Name, p.Spec.NodeName)
	}
	return text
}

// placeholders returns a description of each disk that a placeholder replaces. The description says how the disk comes
// back.
func (o outOfUse) placeholders() []string {
	var list []string
	for _, m := range o.missing {
		list = append(list, o.describeMissing(m))
	}
	return list
}

func (o outOfUse) describeMissing(m storage.Missing) string {
	until := ""
	for _, d := range o.disks {
		if d.Name == m.Disk && d.LocalPath != nil {
			until = " until it is mounted at " + d.LocalPath.Path
		}
	}
	return fmt.Sprintf("%s of %s cannot be mounted on node %s, and a placeholder is in its place%s; "+
		"to try it at once: kubectl cachenode disk readmit %s %s",
		m.Disk, m.Pod, m.Node, until, m.Pod, m.Disk)
}
