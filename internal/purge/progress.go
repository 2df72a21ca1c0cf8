package purge

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Pod contains what is known about a pod that may serve from its cache.
type Pod struct {
	Name string
	// Done is the last answer of the pod's agent; the zero value if the agent has not answered yet.
	Done Done
	// Answered is the time of the agent's last report that it has applied more of the journal than before. It is the zero
	// value if there was no such report yet.
	Answered time.Time
	// Problem says why the agent could not be reached or did not answer; "" if it has answered.
	Problem string
	// IsUnknown is true while this operator does not know what the agent has done.
	IsUnknown bool
	// Confirmed is the time at which the last request that the agent answered was sent; the zero value if the agent has
	// answered no request.
	Confirmed time.Time
	// HasStale is true if the agent has not received all URLs that it must make stale.
	HasStale bool
	// Serves is true if the pod's nginx has started, or is about to start. Otherwise the pod will read the journal
	// before nginx starts.
	Serves bool
}

// Applied returns the place up to which all pods obey the journal; head if there are no pods.
func Applied(pods []Pod, head int64) int64 {
	for _, p := range pods {
		head = min(head, p.Done.Applied)
	}
	return head
}

// phase returns the phase of a rule in a pod or on a disk. The parameter applied is the place up to which the pod or
// the disk obeys the journal.
func (r Rule) phase(applied int64) v1alpha1.PurgePhase {
	switch {
	case !r.Until.IsZero() && applied >= r.Changed:
		return v1alpha1.PurgeSettled
	case applied >= r.Number:
		return v1alpha1.PurgeApplied
	}
	return v1alpha1.PurgePending
}

// message returns the reason why a pod has not applied a purge yet.
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

// order contains the phases, from the first to the last.
var order = []v1alpha1.PurgePhase{v1alpha1.PurgePending, v1alpha1.PurgeApplied, v1alpha1.PurgeSettled}

// These are the limits of a status: the number of pods, the number of disks of all pods together, and the bytes of all
// messages. They are necessary because an attacker who controls a pod can report any text for 33 disks, and a CacheNode
// can have thousands of purges.
const (
	maxPods  = 100
	maxDisks = 256
	maxTexts = 16 << 10
)

// Progress returns a status with the phase, the message, the counts and the pods of a rule. before is the current
// status of the purge.
func Progress(r Rule, pods []Pod, before v1alpha1.CachePurgeStatus) (s v1alpha1.CachePurgeStatus) {
	s.Number, s.Phase = r.Number, v1alpha1.PurgeSettled
	if r.Until.IsZero() {
		s.Phase = v1alpha1.PurgeApplied
	}
	for _, p := range pods {
		one := p.progress(r)
		i := slices.IndexFunc(before.Pods, func(b v1alpha1.PurgePodStatus) bool { return b.Name == one.Name })
		if i >= 0 && (one.AppliedAt != nil || p.IsUnknown) && before.Pods[i].AppliedAt != nil {
			one.AppliedAt = before.Pods[i].AppliedAt
		}
		for _, d := range one.Disks {
			s.Files, s.Bytes = s.Files+d.Files, s.Bytes+d.Bytes
		}
		if rank(one.Phase) < rank(s.Phase) {
			s.Phase = one.Phase
		}
		s.Pods = append(s.Pods, one)
	}
	slices.SortFunc(s.Pods, func(a, b v1alpha1.PurgePodStatus) int {
		return cmp.Or(rank(a.Phase)-rank(b.Phase), strings.Compare(a.Name, b.Name))
	})
	s.SlowestPod = slowest(s.Pods)
	if s.Phase != v1alpha1.PurgePending && before.Phase != v1alpha1.PurgePending && before.SlowestPod != "" {
		s.SlowestPod = before.SlowestPod // the purge did not wait for pods that joined after it was applied
	}
	s.Pods = bounded(s.Pods)
	if s.Phase == v1alpha1.PurgePending {
		s.Message = cut("waits for "+s.Pods[0].Name+": "+s.Pods[0].Message, 1024)
	}
	return s
}

// bounded returns the pods that a status lists. The limits on disks and messages apply to all pods together, so disks
// and messages of the last pods may be missing.
func bounded(pods []v1alpha1.PurgePodStatus) []v1alpha1.PurgePodStatus {
	pods = pods[:min(len(pods), maxPods)]
	disks, texts := maxDisks, maxTexts
	say := func(message *string) {
		if texts -= len(*message); texts < 0 {
			*message = ""
		}
	}
	for i := range pods {
		p := &pods[i]
		p.Disks = p.Disks[:min(len(p.Disks), disks)]
		disks -= len(p.Disks)
		say(&p.Message)
		for d := range p.Disks {
			say(&p.Disks[d].Message)
		}
	}
	return pods
}

// rank returns the position of a phase in order.
func rank(p v1alpha1.PurgePhase) int { return slices.Index(order, p) }

// progress returns the status of a rule in a pod.
func (p Pod) progress(r Rule) v1alpha1.PurgePodStatus {
	s := v1alpha1.PurgePodStatus{Name: p.Name, Phase: r.phase(p.Done.Applied)}
	if s.Phase == v1alpha1.PurgePending {
		s.Message = cut(p.message(), 512)
	} else {
		at := metav1.NewMicroTime(p.Answered)
		s.AppliedAt = &at
	}
	for _, store := range p.Done.Stores {
		count := store.Counts[r.Number]
		d := v1alpha1.PurgeDiskStatus{
			Name: store.Name, Phase: r.phase(max(store.Applied, p.Done.Applied)), Files: count.Files, Bytes: count.Bytes,
		}
		if store.Reason != "" { // nginx uses the store, but the store lags behind
			d.Phase, d.Message = r.phase(store.Applied), cut(store.Reason, 256)
		}
		if d.Files > 0 || d.Phase == v1alpha1.PurgePending {
			s.Disks = append(s.Disks, d)
		}
	}
	return s
}

// slowest returns the name of a pod that has not applied the purge yet. If all pods have applied it, slowest returns
// the pod that was the last to do so. The pods must be sorted by phase.
func slowest(pods []v1alpha1.PurgePodStatus) (name string) {
	var last time.Time
	for _, p := range pods {
		if p.Phase == v1alpha1.PurgePending {
			return p.Name
		}
		if name == "" || p.AppliedAt.After(last) {
			name, last = p.Name, p.AppliedAt.Time
		}
	}
	return name
}

func cut(text string, most int) string { return strings.ToValidUTF8(text[:min(len(text), most)], "") }
