package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// diskStatuses returns the status of each disk in all pods together. If the spec is not accepted, the plan is not
// known, so the shares of the previous status stay. The healthy disks are counted in all cases.
func (f Facts) diskStatuses() []v1alpha1.DiskStatus {
	var statuses []v1alpha1.DiskStatus
	if f.Config == nil {
		for _, before := range f.CacheNode.Status.Disks {
			statuses = append(statuses, v1alpha1.DiskStatus{Name: before.Name, Share: before.Share})
		}
	} else {
		for _, name := range f.Config.Plan.Members() {
			statuses = append(statuses, v1alpha1.DiskStatus{Name: name, Share: shard.Percent(f.Config.Plan.Share(name))})
		}
	}
	for i := range statuses {
		f.addReports(&statuses[i])
	}
	return statuses
}

func (f Facts) addReports(status *v1alpha1.DiskStatus) {
	ways := map[effective.FileSystem]int{}
	for _, p := range f.Pods {
		for _, d := range p.disks() {
			if d.Name != status.Name {
				continue
			}
			status.Total++
			if d.State == v1alpha1.DiskHealthy {
				status.Healthy++
			}
			if d.FileSystem != nil {
				ways[*d.FileSystem]++
			}
		}
	}
	status.FileSystem, status.Advice = preparation(ways, f.media(status.Name))
}

// preparation returns a description of the file systems that a disk has in the pods. advice recommends a change of
// these file systems; "" if there is nothing to recommend.
func preparation(ways map[effective.FileSystem]int, media v1alpha1.Media) (is, advice string) {
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

func (f Facts) media(disk string) v1alpha1.Media {
	for _, d := range f.CacheNode.Spec.Disks {
		if d.Name == disk {
			return d.Media
		}
	}
	return ""
}
