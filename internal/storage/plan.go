package storage

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Actions are what is to be done, in this order, and what is to be said of it.
type Actions struct {
	// Keep is done on every pass, whatever the spec asks for: it keeps pods running.
	Keep Keep
	// Follow is done only when the spec is accepted.
	Follow Follow
	// Missing are the disks that placeholders stand in for.
	Missing []Missing
	// Waiting says which lost nodes are waited for, and why; "" for none.
	Waiting string
	// Since is to be part of the next State.
	Since Since
	// After is when to plan again though nothing happens; 0 for never.
	After time.Duration
}

// Keep is what keeps pods running.
type Keep struct {
	// Releases are those of lost nodes, of disks that cannot be mounted and of disks that are back, at most one for a pod.
	Releases []Release
	// Offer are volumes whose claims are gone: they become available again.
	Offer []*corev1.PersistentVolume
	// Scouts are objects to create. Spent are objects of scouts to delete.
	Scouts, Spent []client.Object
}

// Follow is what follows the spec.
type Follow struct {
	// Invalid is an error of the spec: nothing else is in Follow.
	Invalid error
	// NoNode: with one pod on each node, no node matches: nothing else is in Follow.
	NoNode bool
	// Replicas is the number of pods to set where each node has one; nil to leave it.
	Replicas *int32
	// Releases move pods from nodes that the spec no longer allows.
	Releases []Release
	// Create are volumes that are not there. Update are those that are, as they are to be. Delete are those that nobody wants
	// and no claim holds.
	Create, Update, Delete []*corev1.PersistentVolume
	// More: there are more to create in the next pass.
	More bool
	// Taken says which paths other volumes have; TooMany that the namespace has as many volumes as it may have.
	Taken   []string
	TooMany string
	// Unwanted are claims to delete; Grow are claims that are to ask for more.
	Unwanted []*corev1.PersistentVolumeClaim
	Grow     []Growth
	// Own are claims whose owners are to change.
	Own []Ownership
}

// Growth is a claim that is to ask for more.
type Growth struct {
	Claim *corev1.PersistentVolumeClaim
	Size  resource.Quantity
}

// Ownership is a claim with the owners that it is to have.
type Ownership struct {
	Claim  *corev1.PersistentVolumeClaim
	Owners []metav1.OwnerReference
}

// Needs is what must be read before [Plan] can decide, beyond what every pass reads.
type Needs struct {
	// Fresh: read nodes, pods, claims and volumes from the API server itself, because something is about to be deleted.
	Fresh bool
	// All: read the volumes of the whole cluster, because some are about to be created.
	All bool
	// Events: read the events about these pods.
	Events []string
}

// None is true where nothing more must be read.
func (n Needs) None() bool { return !n.Fresh && !n.All && len(n.Events) == 0 }

// Needs says what the plan lacks. Reading that may show that more is needed.
func (s State) Needs() Needs {
	n := Needs{Events: s.unexplained()}
	if !s.Fresh {
		a := Plan(s)
		fewer := a.Follow.Replicas != nil && int(*a.Follow.Replicas) < s.replicas()
		n.Fresh = fewer || slices.ContainsFunc(a.Keep.Releases, func(r Release) bool { return r.Force })
	}
	n.All = s.All == nil && s.lacksVolumes()
	return n
}

// maxExplained is how many pods' events are read in a pass.
const maxExplained = 8

// unexplained are the pods whose events are to be read and were not: first those that are about to start without a disk, then,
// if they are few, those of which people want to know why they do not start.
func (s State) unexplained() []string {
	var stuck, late []string
	for i := range s.Pods {
		name := s.Pods[i].Name
		if _, read := s.Events[name]; read {
			continue
		}
		if is, _ := s.stuck(&s.Pods[i]); is {
			stuck = append(stuck, name)
		} else if is, _ := s.isLate(&s.Pods[i]); is {
			late = append(late, name)
		}
	}
	room := max(maxExplained-len(s.Events)-len(stuck), 0)
	return append(stuck, late[:min(len(late), room)]...)
}

// Plan decides.
func Plan(s State) Actions {
	p := &plan{State: s}
	p.Missing = s.missing()
	p.loseNodes()
	p.startWithoutDisks()
	p.scout()
	p.returnDisks()
	p.planVolumes()
	p.followNodes()
	p.tidyClaims()
	return p.Actions
}

// plan is a State with the Actions that have been decided on so far.
type plan struct {
	State
	Actions
}

func (p *plan) again(after time.Duration) { p.After = earlier(p.After, after) }

// release adds a release, unless the pod has one: the next pass decides on more.
func (p *plan) release(list *[]Release, r Release) {
	same := func(other Release) bool { return other.Name == r.Name }
	if slices.ContainsFunc(p.Keep.Releases, same) || slices.ContainsFunc(*list, same) {
		return
	}
	r.Pod = p.pod(r.Name)
	*list = append(*list, r)
}
