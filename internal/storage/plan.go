package storage

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Actions contains what the executor must do, in this order. It also contains what the status must show.
type Actions struct {
	// Keep is carried out in every pass, whatever the spec asks for, because it keeps pods running.
	Keep Keep
	// Follow is carried out only when the spec is accepted.
	Follow Follow
	// Missing are the disks that placeholders replace.
	Missing []Missing
	// Waiting is a text about the lost nodes for which the plan waits, and the cause; "" if it waits for none.
	Waiting string
	// Since becomes a part of the State of the next pass.
	Since Since
	// After is the time until the next plan, if no event causes a plan earlier; 0 means never.
	After time.Duration
}

// Keep holds the actions that keep pods running.
type Keep struct {
	// Releases handle lost nodes, disks that cannot be mounted, and disks that are back, repaired or replaced. There is at
	// most one release for a pod.
	Releases []Release
	// Offer are volumes whose claims are gone. The executor makes these volumes available to other claims.
	Offer []*corev1.PersistentVolume
	// Scouts are the objects of scouts that must be created. Spent are the objects of scouts that must be deleted.
	Scouts, Spent []client.Object
}

// Follow holds the actions that the spec requires.
type Follow struct {
	// Invalid is an error in the spec. If it is set, nothing else is set in Follow.
	Invalid error
	// NoNode is true if the spec asks for one pod on each node and no node matches. If it is true, nothing else is set
	// in Follow.
	NoNode bool
	// Replicas is the number of pods to set if the spec asks for one pod on each node. nil means that the number does not
	// change.
	Replicas *int32
	// Releases move pods from nodes that the spec no longer allows.
	Releases []Release
	// Create are volumes to create. Update are existing volumes, with the fields that they must have. Delete are volumes
	// that are no longer wanted and that no claim uses.
	Create, Update, Delete []*corev1.PersistentVolume
	// More is true if the next pass must create more volumes.
	More bool
	// Taken describes the paths that belong to other volumes. TooMany is a message if the limit of the namespace allows no
	// more volumes; "" otherwise.
	Taken   []string
	TooMany string
	// Unwanted are claims to delete. Grow are claims that must ask for more space.
	Unwanted []*corev1.PersistentVolumeClaim
	Grow     []Growth
	// Own are claims whose owners must change.
	Own []Ownership
}

// Growth is a claim that must ask for more space.
type Growth struct {
	Claim *corev1.PersistentVolumeClaim
	Size  resource.Quantity
}

// Ownership is a claim with the owners that it must have.
type Ownership struct {
	Claim  *corev1.PersistentVolumeClaim
	Owners []metav1.OwnerReference
}

// Needs describes what must be read before [Plan] can decide, in addition to what every pass reads.
type Needs struct {
	// Fresh asks for nodes, pods, claims and volumes from the API server, because something is about to be deleted.
	Fresh bool
	// All asks for the volumes of the whole cluster, because some volumes are about to be created.
	All bool
	// Events are the names of the pods whose events are to be read.
	Events []string
}

// None reports whether nothing more must be read.
func (n Needs) None() bool { return !n.Fresh && !n.All && len(n.Events) == 0 }

// Needs returns what must still be read. After the caller has read this, a second call of Needs may return something
// else to read.
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

// maxExplained is the maximum number of pods whose events are read in a pass, unless more pods are stuck.
const maxExplained = 8

// unexplained returns the pods whose events must still be read. First come all pods that are stuck, because they may
// have to start without a disk. Then come pods that are late, because users want to know the cause. Late pods are added
// only up to a total of maxExplained pods.
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

// Plan returns the actions that a State requires.
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

// plan is a State and the Actions that have been decided so far.
type plan struct {
	State
	Actions
}

func (p *plan) again(after time.Duration) { p.After = earlier(p.After, after) }

// release adds a release, unless the pod already has one. In that case, the next pass decides again.
func (p *plan) release(list *[]Release, r Release) {
	same := func(other Release) bool { return other.Name == r.Name }
	if slices.ContainsFunc(p.Keep.Releases, same) || slices.ContainsFunc(*list, same) {
		return
	}
	r.Pod = p.pod(r.Name)
	*list = append(*list, r)
}
