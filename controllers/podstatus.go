package controllers

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/movement"
	"github.com/cachenode/cachenode-operator/internal/storage"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

const (
	healthy = "Healthy"
	failed  = "Failed"
	// unmounted is the reason of a disk of which there is only the folder.
	unmounted = "NotMounted"
)

// podStatuses tells what each pod runs, and of its disks what is not as planned: a pure function of what was observed.
func podStatuses(s *scope) []v1alpha1.PodStatus {
	statuses := []v1alpha1.PodStatus{}
	for i := range s.pods {
		pod, seen := &s.pods[i], s.observations[s.pods[i].Name]
		if !pod.DeletionTimestamp.IsZero() {
			continue
		}
		status := v1alpha1.PodStatus{Name: pod.Name, Node: pod.Spec.NodeName, Revision: seen.Report.Revision}
		switch refusal, held, silent := seen.Report.Refusal, s.heldUp[pod.Name], seen.isSilentIn(pod, s.now); {
		case silent && held == "":
			status.Message = "the agent does not answer"
		case silent:
			status.Message = held
		case seen.Report.Problem != "":
			status.Message = truncated(seen.Report.Problem, 1024)
		case seen.Report.Lowered != "":
			status.Message = truncated(seen.Report.Lowered, 1024)
		case refusal != nil:
			status.Message = truncated("refused revision "+refusal.Revision+": "+refusal.Message, 1024)
		default:
			status.Message = held
		}
		for _, d := range seen.Report.Disks {
			if d.Status == healthy && (s.plan == nil || seen.Report.Revision != s.wanted.ID || d.Share == s.plan.Share(d.Name)) {
				continue
			}
			status.Disks = append(status.Disks, v1alpha1.PodDiskStatus{
				Name: d.Name, State: d.Status, Reason: d.Reason, Share: movement.Share(d.Share), Message: truncated(d.Message, 512),
			})
		}
		statuses = append(statuses, status)
	}
	slices.SortFunc(statuses, func(a, b v1alpha1.PodStatus) int { return strings.Compare(a.Name, b.Name) })
	return statuses[:min(len(statuses), 1000)]
}

// diskStatuses tells of each disk over all pods.
func diskStatuses(s *scope) []v1alpha1.DiskStatus {
	var statuses []v1alpha1.DiskStatus
	for _, name := range s.plan.Disks() {
		status := v1alpha1.DiskStatus{Name: name, Share: movement.Share(s.plan.Share(name))}
		ways := map[tuning.FileSystem]int{}
		for i := range s.pods {
			for _, d := range s.observations[s.pods[i].Name].Report.Disks {
				if d.Name == name {
					status.Total++
					if d.Status == healthy {
						status.Healthy++
					}
					if f := d.FileSystem; f != nil {
						ways[tuning.FileSystem{Type: f.Type, BlockSize: f.BlockSize, ReadAhead: f.ReadAhead, Options: f.Options}]++
					}
				}
			}
		}
		status.FileSystem, status.Advice = preparation(ways, s.media(name))
		statuses = append(statuses, status)
	}
	return statuses
}

// preparation tells how a disk is prepared in the pods, and what would be better where that is not well.
func preparation(ways map[tuning.FileSystem]int, media v1alpha1.Media) (is, advice string) {
	var texts, advices []string
	for way, pods := range ways {
		text := way.String()
		if len(ways) > 1 {
			text = fmt.Sprintf("%s in %d pods", text, pods)
		}
		texts = append(texts, text)
		if advice := way.Advice(media); advice != "" {
			advices = append(advices, advice)
		}
	}
	slices.Sort(texts)
	slices.Sort(advices)
	if len(advices) > 0 {
		advice = truncated(advices[len(advices)-1], 1024)
	}
	return truncated(strings.Join(texts, "; "), 512), advice
}

func (s *scope) media(disk string) v1alpha1.Media {
	for _, d := range s.node.Spec.Disks {
		if d.Name == disk {
			return d.Media
		}
	}
	return ""
}

// failedDisks are the disks that are out of use, with the reasons, and what a person can do.
func failedDisks(s *scope) []string {
	var list []string
	for i := range s.pods {
		for _, d := range s.observations[s.pods[i].Name].Report.Disks {
			missing := slices.ContainsFunc(s.missing, func(m storage.Missing) bool { return m.Pod == s.pods[i].Name && m.Disk == d.Name })
			if d.Status == failed && !missing {
				list = append(list, s.pods[i].Name+": "+describeDisk(d))
			}
		}
	}
	slices.Sort(list)
	return list
}

func describeDisk(d agentapi.DiskReport) string {
	text := fmt.Sprintf("%s is out of use (%s)", d.Name, d.Reason)
	if d.NeedsNewPod {
		text += ", and needs a new pod once it is repaired: kubectl cachenode disk readmit POD " + d.Name
	}
	return text
}

// missingDisks are the disks that placeholders stand in for, and how they come back.
func missingDisks(s *scope) []string {
	var list []string
	for _, m := range s.missing {
		until := ""
		if i := slices.IndexFunc(s.node.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == m.Disk && d.LocalPath != nil }); i >= 0 {
			until = " until it is mounted at " + s.node.Spec.Disks[i].LocalPath.Path
		}
		list = append(list, fmt.Sprintf("%s of %s cannot be mounted on node %s, and a placeholder is in its place%s; to try it at once: kubectl cachenode disk readmit %s %s",
			m.Disk, m.Pod, m.Node, until, m.Pod, m.Disk))
	}
	return list
}

// loweredLimits are the pods that run with lower limits than the spec's, and why.
func loweredLimits(s *scope) []string {
	var list []string
	for pod, seen := range s.observations {
		if seen.Report.Lowered != "" {
			list = append(list, pod+": "+seen.Report.Lowered)
		}
	}
	slices.Sort(list)
	return list
}

// silentAgents are the pods that are ready and whose agents do not answer.
func silentAgents(s *scope) []string {
	var list []string
	for i := range s.pods {
		if isReady(&s.pods[i]) && s.observations[s.pods[i].Name].isSilentIn(&s.pods[i], s.now) {
			list = append(list, s.pods[i].Name)
		}
	}
	slices.Sort(list)
	return list
}

// diskChanges tells which disks failed and which came back.
func diskChanges(before, after []v1alpha1.PodStatus) []change {
	states := func(pods []v1alpha1.PodStatus) map[string]v1alpha1.PodDiskStatus {
		disks := map[string]v1alpha1.PodDiskStatus{}
		for _, p := range pods {
			for _, d := range p.Disks {
				if d.State == failed {
					disks[p.Name+" "+d.Name] = d
				}
			}
		}
		return disks
	}
	was, is := states(before), states(after)
	var list []change
	for key, d := range is {
		if _, known := was[key]; !known {
			pod, _, _ := strings.Cut(key, " ")
			list = append(list, change{
				kind: corev1.EventTypeWarning, reason: v1alpha1.ReasonDiskFailed, action: "Observe",
				note: fmt.Sprintf("%s of %s is out of use: %s: %s", d.Name, pod, d.Reason, d.Message),
			})
		}
	}
	for key, d := range was {
		pod, _, _ := strings.Cut(key, " ")
		still := slices.ContainsFunc(after, func(p v1alpha1.PodStatus) bool { return p.Name == pod })
		if _, known := is[key]; !known && still {
			list = append(list, change{
				kind: corev1.EventTypeNormal, reason: "DiskHealthy", action: "Observe",
				note: fmt.Sprintf("%s of %s is in use again", d.Name, pod),
			})
		}
	}
	slices.SortFunc(list, func(a, b change) int { return strings.Compare(a.note, b.note) })
	return list
}

// truncated cuts a text to a length in bytes, not within a character.
func truncated(text string, length int) string {
	if len(text) <= length {
		return text
	}
	text = text[:length]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text
}
