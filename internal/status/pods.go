package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// maxPods is how many pods the status lists: the largest spec.replicas.
const maxPods = 1000

// podStatuses says what each pod runs, and which of its disks are not as planned. The previous status of a pod stands
// while its agent has never answered this operator, because nothing else is known.
func (f Facts) podStatuses() []v1alpha1.PodStatus {
	statuses := []v1alpha1.PodStatus{}
	for _, p := range f.Pods {
		if !p.DeletionTimestamp.IsZero() {
			continue
		}
		status := v1alpha1.PodStatus{Name: p.Name, Node: p.Spec.NodeName, Message: f.podMessage(p), Share: f.share(p.Name)}
		if p.Report != nil {
			status.Revision, status.Disks = p.Report.Revision, f.podDisks(p.Name, p.Report)
			status.NginxVersion, status.Outdated = p.Report.NginxVersion, truncated(ageOf(p.Report).String(), 256)
		} else if before := f.statusBefore(p.Name); f.isUnasked(p) && before.Node == status.Node {
			status.Revision, status.Disks = before.Revision, before.Disks
			status.NginxVersion, status.Outdated = before.NginxVersion, before.Outdated
		}
		statuses = append(statuses, status)
	}
	slices.SortFunc(statuses, func(a, b v1alpha1.PodStatus) int { return strings.Compare(a.Name, b.Name) })
	return statuses[:min(len(statuses), maxPods)]
}

func (f Facts) statusBefore(pod string) v1alpha1.PodStatus {
	for _, status := range f.CacheNode.Status.Pods {
		if status.Name == pod {
			return status
		}
	}
	return v1alpha1.PodStatus{}
}

// podMessage says what is wrong with a pod; "" if nothing is.
func (f Facts) podMessage(p Pod) string {
	held, _ := f.heldUpPod(p)
	report := p.Report
	if report == nil {
		report = &agentapi.Report{}
	}
	switch {
	case p.Silent && held == "":
		return "the agent does not answer"
	case p.Silent:
		return held
	case report.Problem != "":
		return truncated(report.Problem, 1024)
	case report.Lowered != "":
		return truncated(report.Lowered, 1024)
	case report.Refusal != nil:
		return truncated("refused revision "+report.Refusal.Revision+": "+report.Refusal.Message, 1024)
	case held == "":
		return f.handover(p.Name)
	}
	return held
}

// podDisks returns the disks that are not healthy, and those whose share of the keys differs from the plan.
func (f Facts) podDisks(pod string, report *agentapi.Report) (disks []v1alpha1.PodDiskStatus) {
	for _, d := range report.Disks {
		planned := f.Config == nil || report.Revision != f.Config.Revision || d.Share == f.Config.Plan.Share(d.Name)
		if d.State == v1alpha1.DiskHealthy && planned {
			continue
		}
		disks = append(disks, v1alpha1.PodDiskStatus{
			Name: d.Name, State: string(d.State), Reason: string(d.Reason), Share: shard.Percent(d.Share),
			Message: truncated(f.diskMessage(pod, d), 512),
		})
	}
	return append(disks, f.disksToCome(report)...)
}

// disksToCome returns the disks of the spec that the pod does not have, because it is not yet replaced.
func (f Facts) disksToCome(report *agentapi.Report) (disks []v1alpha1.PodDiskStatus) {
	if f.Config == nil || len(report.Disks) == 0 {
		return nil
	}
	for _, name := range f.Config.Plan.Members() {
		if !slices.ContainsFunc(report.Disks, func(d agentapi.DiskReport) bool { return d.Name == name }) {
			disks = append(disks, v1alpha1.PodDiskStatus{
				Name: name, State: string(v1alpha1.DiskStarting), Share: shard.Percent(0),
				Message: "the pod has this disk when it is replaced",
			})
		}
	}
	return disks
}

// diskMessage returns what the agent says of a disk. For a disk with a placeholder in its place, which the agent cannot
// know, it is what happens to the disk.
func (f Facts) diskMessage(pod string, d agentapi.DiskReport) string {
	for _, m := range f.Missing {
		if m.Pod == pod && m.Disk == d.Name {
			return f.describeMissing(m)
		}
	}
	if d.Reason == v1alpha1.DiskForeignCache && f.isAbandoned(pod, d) {
		return fmt.Sprintf("holds the cache of CacheNode %s, which no longer exists: "+
			"that cache is deleted, and then the disk is used", d.ForeignOwner)
	}
	return d.Message
}

// isAbandoned returns true for a foreign cache that the pod has to delete, because its CacheNode no longer exists.
func (f Facts) isAbandoned(pod string, d agentapi.DiskReport) bool {
	for _, p := range f.Pods {
		if p.Name == pod {
			return slices.Contains(strings.Split(p.Annotations[naming.AnnotationEmpty], ","), d.Name+"="+d.ForeignOwner)
		}
	}
	return false
}

// failedDisks describes the disks that are out of use, with the reasons and what a person can do.
func (f Facts) failedDisks() []string {
	var list []string
	for _, p := range f.Pods {
		for _, d := range f.disks(p) {
			missing := slices.ContainsFunc(f.Missing, func(m storage.Missing) bool {
				return m.Pod == p.Name && m.Disk == d.Name
			})
			if d.State == v1alpha1.DiskFailed && !missing {
				list = append(list, f.describeDisk(p, d))
			}
		}
	}
	slices.Sort(list)
	return list
}

func (f Facts) describeDisk(p Pod, d agentapi.DiskReport) string {
	text := fmt.Sprintf("%s: %s is out of use (%s)", p.Name, d.Name, d.Reason)
	if d.Reason == v1alpha1.DiskForeignCache {
		return text + ": it " + f.diskMessage(p.Name, d)
	}
	if d.NeedsNewPod {
		text += fmt.Sprintf("; to repair it: kubectl cordon %s, kubectl cachenode disk readmit %s %s, "+
			"repair the disk while the pod is pending, kubectl uncordon %s",
			p.Spec.NodeName, p.Name, d.Name, p.Spec.NodeName)
	}
	return text
}

// missingDisks describes the disks that have a placeholder in their place, and how they come back.
func (f Facts) missingDisks() []string {
	var list []string
	for _, m := range f.Missing {
		list = append(list, f.describeMissing(m))
	}
	return list
}

func (f Facts) describeMissing(m storage.Missing) string {
	until := ""
	for _, d := range f.CacheNode.Spec.Disks {
		if d.Name == m.Disk && d.LocalPath != nil {
			until = " until it is mounted at " + d.LocalPath.Path
		}
	}
	return fmt.Sprintf("%s of %s cannot be mounted on node %s, and a placeholder is in its place%s; "+
		"to try it at once: kubectl cachenode disk readmit %s %s",
		m.Disk, m.Pod, m.Node, until, m.Pod, m.Disk)
}

// loweredLimits lists the pods that run with lower limits than the spec's, and why.
func (f Facts) loweredLimits() []string {
	var list []string
	for _, p := range f.Pods {
		if p.Report != nil && p.Report.Lowered != "" {
			list = append(list, p.Name+": "+p.Report.Lowered)
		}
	}
	slices.Sort(list)
	return list
}

// FewFiles says which pod may have the fewest files open, if that lowers listen.maxConnections of a spec.
func (f Facts) FewFiles(spec v1alpha1.CacheNodeSpec) []string {
	pod, limit := "", int64(0)
	for _, p := range f.Pods {
		if p.Report == nil || p.Report.OpenFiles <= 0 {
			continue
		}
		if of := p.Report.OpenFiles; limit == 0 || of < limit || of == limit && p.Name < pod {
			pod, limit = p.Name, of
		}
	}
	if text := effective.FewFiles(spec, pod, limit); text != "" {
		return []string{text}
	}
	return nil
}

// silentAgents lists the ready pods whose agents do not answer.
func (f Facts) silentAgents() []string {
	var list []string
	for _, p := range f.Pods {
		if p.Silent && storage.IsReady(p.Pod) {
			list = append(list, p.Name)
		}
	}
	slices.Sort(list)
	return list
}
