package status

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// maxPods is the maximum number of pods in the status. It equals the largest spec.replicas.
const maxPods = 1000

// podStatuses returns the revision of each pod, and the disks of the pod that are not as planned. If the agent of a pod
// has never answered this operator, the pod keeps its previous status, because nothing else is known.
func (f Facts) podStatuses() []v1alpha1.PodStatus {
	statuses := []v1alpha1.PodStatus{}
	for _, p := range f.Pods {
		if !p.DeletionTimestamp.IsZero() {
			continue
		}
		status := v1alpha1.PodStatus{
			Name: p.Name, Node: p.Spec.NodeName, Message: f.podMessage(p), Share: f.routing().share(p.Name),
		}
		if p.Report != nil {
			status.Revision, status.Disks = p.Report.Revision, f.podDisks(p.Name, p.Report)
			status.NginxVersion, status.Outdated = p.Report.NginxVersion, truncated(ageOf(p.Report, f.Version).String(), 256)
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

// podMessage returns a text about what is wrong with a pod; "" if nothing is wrong.
func (f Facts) podMessage(p Pod) string {
	held, _ := p.heldUp(f.Now)
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
		return f.routing().handover(p.Name)
	}
	return held
}

// podDisks returns the disks that are not healthy, and the disks whose share of the keys differs from the plan.
func (f Facts) podDisks(pod string, report *agentapi.Report) (disks []v1alpha1.PodDiskStatus) {
	for _, d := range report.Disks {
		planned := f.Config == nil || report.Revision != f.Config.Revision || d.Share == f.Config.Plan.Share(d.Name)
		if d.State == v1alpha1.DiskHealthy && planned {
			continue
		}
		disks = append(disks, v1alpha1.PodDiskStatus{
			Name: d.Name, State: string(d.State), Reason: string(d.Reason), Share: shard.Percent(d.Share),
			Message: truncated(f.outOfUse().message(pod, d), 512),
		})
	}
	return append(disks, f.disksToCome(report)...)
}

// disksToCome returns the disks of the spec that the pod lacks because it has not been replaced yet.
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

// loweredLimits returns a text for each pod whose nginx runs with lower limits than the spec asks for. The text gives
// the cause.
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

// FewFiles returns a text about the pod with the lowest limit on open files, if that limit lowers
// listen.maxConnections.
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

// silentAgents returns the ready pods whose agents do not answer.
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
