package purge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Pod is what is known of a pod that may serve from its cache.
type Pod struct {
	Name string
	// Done is what its agent has said last; the zero value if it has said nothing yet.
	Done Done
	// Problem is why the agent was not reached, or has not answered; "" if it did.
	Problem string
	// IsUnknown is true if this operator has not heard of it yet.
	IsUnknown bool
}

// Applied is the place up to which all pods obey the journal; head if there are none.
func Applied(pods []Pod, head int64) int64 {
	for _, p := range pods {
		head = min(head, p.Done.Applied)
	}
	return head
}

// phase is how far a rule has come in a pod.
func (p Pod) phase(r Rule) v1alpha1.PurgePhase {
	switch {
	case !r.Until.IsZero() && p.Done.Applied >= r.Changed:
		return v1alpha1.PurgeSettled
	case p.Done.Applied >= r.Number:
		return v1alpha1.PurgeApplied
	}
	return v1alpha1.PurgePending
}

// message is what a pod that is behind waits for.
func (p Pod) message() string {
	if p.Problem != "" {
		return p.Problem
	}
	for _, s := range p.Done.Stores {
		if s.Reason != "" {
			return s.Name + ": " + s.Reason
		}
	}
	return "the agent has not applied it yet"
}

// order is the phases, from the least.
var order = []v1alpha1.PurgePhase{v1alpha1.PurgePending, v1alpha1.PurgeApplied, v1alpha1.PurgeSettled}

// maxPods is how many pods a status lists.
const maxPods = 100

// Progress is how far a rule has come: the phase, the message, the counts and the pods of a status.
func Progress(r Rule, pods []Pod) (s v1alpha1.CachePurgeStatus) {
	s.Number, s.Phase = r.Number, v1alpha1.PurgeSettled
	if r.Until.IsZero() {
		s.Phase = v1alpha1.PurgeApplied
	}
	rank := func(p v1alpha1.PurgePhase) int { return slices.Index(order, p) }
	for _, p := range pods {
		one := v1alpha1.PurgePodStatus{Name: p.Name, Phase: p.phase(r)}
		if one.Phase == v1alpha1.PurgePending {
			one.Message = cut(p.message(), 512)
		}
		var disks []string
		for _, store := range p.Done.Stores {
			if count := store.Counts[r.Number]; count.Files > 0 {
				s.Files, s.Bytes = s.Files+count.Files, s.Bytes+count.Bytes
				disks = append(disks, fmt.Sprintf("%s=%d", store.Name, count.Files))
			}
		}
		one.Disks = cut(strings.Join(disks, " "), 2048)
		if rank(one.Phase) < rank(s.Phase) {
			s.Phase = one.Phase
		}
		s.Pods = append(s.Pods, one)
	}
	slices.SortFunc(s.Pods, func(a, b v1alpha1.PurgePodStatus) int {
		return cmp.Or(rank(a.Phase)-rank(b.Phase), strings.Compare(a.Name, b.Name))
	})
	s.Pods = s.Pods[:min(len(s.Pods), maxPods)]
	if s.Phase == v1alpha1.PurgePending {
		s.Message = cut("waits for "+s.Pods[0].Name+": "+s.Pods[0].Message, 1024)
	}
	return s
}

func cut(text string, most int) string { return strings.ToValidUTF8(text[:min(len(text), most)], "") }
