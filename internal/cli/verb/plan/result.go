package plan

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// result describes what an edit does. It is also the verb's output for programs, so fields may be added, but not
// removed or renamed.
type result struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// Outcome is the most severe effect of the edit: Nothing, Changes or Loss.
	Outcome outcome `json:"outcome"`
	// Revision is the revision that the pods run, if it is older than the present spec. The edit is then compared with
	// this revision.
	Revision string `json:"revision,omitempty"`
	// Keys describes the keys that move between disks. Owners describes the keys that move between pods.
	Keys   movement `json:"keys"`
	Owners *owners  `json:"owners,omitempty"`
	// Cached lists the other effects of the edit on cached objects.
	Cached []edit.Cached `json:"cached,omitempty"`
	// Acknowledge is the value of the annotation cachenode.io/acknowledged-key-movement for which the edit waits.
	Acknowledge string  `json:"acknowledge,omitempty"`
	Fields      []field `json:"fields,omitempty"`
	// Chosen lists what the operator chooses differently.
	Chosen []string `json:"chosen,omitempty"`
	Pods   pods     `json:"pods"`
	Claims []claim  `json:"claims,omitempty"`
	// Routes lists the routes of Gateways that the edit changes.
	Routes []routeChange `json:"routes,omitempty"`
}

// outcome is the most severe effect of an edit.
type outcome string

const (
	// nothing means that no field, pod, key or claim changes.
	nothing outcome = "Nothing"
	// changed means that something changes, even if it is only a field that affects no pod. The cache still finds all
	// cached objects.
	changed outcome = "Changes"
	// loss means that keys move, that the cache no longer finds objects, or that claims are deleted.
	loss outcome = "Loss"
)

// code returns the exit code of the plugin.
func (o outcome) code() int {
	switch o {
	case changed:
		return 2
	case loss:
		return 3
	case nothing:
	}
	return 0
}

// movement describes how many keys move. Ratios are from 0 to 1.
type movement struct {
	Ratio float64 `json:"ratio"`
	// Least is the smallest ratio of keys that any plan would have to move.
	Least float64 `json:"least"`
	// Bytes is the size of the objects that move. Cached is the size of everything in the caches. Both are estimates of
	// the agents, up to a minute old. They are left out if they are not known.
	Bytes  *int64 `json:"bytes,omitempty"`
	Cached *int64 `json:"cachedBytes,omitempty"`
	Moves  []move `json:"moves,omitempty"`
}

// move is the movement of keys from one disk to another.
type move struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Ratio float64 `json:"ratio"`
	Bytes *int64  `json:"bytes,omitempty"`
}

// owners describes how many keys get another owner. During routing.handover, the new owner fetches requested objects
// of these keys from the previous owner.
type owners struct {
	Ratio           float64 `json:"ratio"`
	Least           float64 `json:"least"`
	HandoverSeconds float64 `json:"handoverSeconds"`
}

// field is a field that changes, with the effect of this change alone.
type field struct {
	Path string `json:"path"`
	// From and To are the values before and after the edit, shortened.
	From   string `json:"from"`
	To     string `json:"to"`
	Effect string `json:"effect"`
}

// pods describes what the edit does to the pods.
type pods struct {
	Replaced []string `json:"replaced,omitempty"`
	Created  []string `json:"created,omitempty"`
	Removed  []string `json:"removed,omitempty"`
	// Reload is true if nginx reloads in the pods that are not replaced.
	Reload bool `json:"reload"`
	// stay is the number of pods that exist both before and after the edit.
	stay int
}

// claim describes what the edit does to the claims for a disk.
type claim struct {
	Disk string `json:"disk"`
	// Action is Create, Grow or Delete.
	Action string `json:"action"`
	// From and To are the sizes of a claim before and after the edit.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// The values of claim.Action.
const (
	claimCreate = "Create"
	claimGrow   = "Grow"
	claimDelete = "Delete"
)

// compare returns the effects of an edit that replaces one CacheNode (asked) with another (next). The parameter before
// describes what the pods run before the edit. used contains, by disk, how many bytes the caches of this disk take in
// all pods together; nil if that is unknown.
func compare(
	asked *v1alpha1.CacheNode, before running, next *v1alpha1.CacheNode, used map[string]int64,
) (result, error) {
	now := effective.Of(asked, before.tier)
	next = next.DeepCopy()
	next.Namespace, next.Annotations = now.Namespace, now.Annotations // a file that omits both does not change them
	if next.Spec.Pod.Image == "" && now.Spec.Pod.Image == effective.FormerImage {
		next.Spec.Pod.Image = effective.FormerImage // kubectl apply leaves a default as it is
	}
	chosen := effective.Of(next, now.Before())
	e, older, err := before.edit(now, chosen)
	if err != nil {
		return result{}, err
	}
	r := result{
		Name: next.Name, Namespace: next.Namespace, Revision: older,
		Keys: movementOf(e.Movement, used), Owners: ownersOf(now, chosen),
		Cached: edit.CachedOf(before.spec(now), chosen.Spec),
		Chosen: choices(now, chosen),
	}
	if limit, m := next.Spec.Rollout.MaxKeyMovement, e.Movement; limit != nil && m.Slots > int(*limit)*100 {
		r.Acknowledge = m.Name
	}
	if r.Fields, err = fieldsThatChange(now, asked, next); err != nil {
		return result{}, err
	}
	before = before.orOf(now.CacheNode)
	r.Pods = podsOf(*before.replicas, chosen, e, r.Owners != nil)
	r.Claims = claimsOf(before.claims, next)
	r.Outcome = r.outcome(e)
	return r, nil
}

// addRoutes adds what the edit does to routes, which need a reload of nginx.
func (r *result) addRoutes(changes []routeChange) {
	if len(changes) == 0 {
		return
	}
	r.Routes = changes
	if len(r.Pods.Replaced) == 0 && r.Pods.stay > 0 {
		r.Pods.Reload = true
	}
	switch {
	case slices.ContainsFunc(changes, func(c routeChange) bool { return c.Lost }):
		r.Outcome = loss
	case r.Outcome == nothing:
		r.Outcome = changed
	}
}

// outcome returns the most severe effect.
func (r result) outcome(e edit.Edit) outcome {
	isLoss := func(c edit.Cached) bool { return c.Fate != edit.Kept }
	deletes := func(c claim) bool { return c.Action == claimDelete }
	switch {
	case e.Movement.Slots > 0, slices.ContainsFunc(r.Cached, isLoss), slices.ContainsFunc(r.Claims, deletes):
		return loss
	case e.NewPods, e.NewRevision, r.Owners != nil, len(r.Claims) > 0, len(r.Fields) > 0,
		len(r.Pods.Created)+len(r.Pods.Removed) > 0:
		return changed
	}
	return nothing
}

func ratio(hundredths int) float64 { return float64(hundredths) / 1e4 }

func movementOf(m shard.Movement, used map[string]int64) movement {
	told := movement{Ratio: ratio(m.Slots), Least: ratio(m.Least)}
	for _, one := range m.Moves {
		row := move{From: one.From, To: one.To, Ratio: ratio(one.Slots)}
		if used != nil {
			row.Bytes = new(int64(m.MoveBytes(one, used)))
		}
		told.Moves = append(told.Moves, row)
	}
	if used != nil {
		var all int64
		for _, n := range used {
			all += n
		}
		told.Bytes, told.Cached = new(m.Bytes(used)), &all
	}
	return told
}

func ownersOf(now, next effective.CacheNode) *owners {
	m, shared := edit.PodMovement(now.Spec, next.Spec)
	if !shared || m.Slots == 0 {
		return nil
	}
	return &owners{ratio(m.Slots), ratio(m.Least), effective.Handover(next.Spec.Routing).Seconds()}
}

// handover returns a text for people: the time for which the new owners fetch objects from the previous owners.
func (o owners) handover() string {
	return duration.HumanDuration(time.Duration(o.HandoverSeconds * float64(time.Second)))
}

// podsOf returns what an edit does to the pods. nginx also reloads if the pods that own keys change.
func podsOf(replicas int32, next effective.CacheNode, e edit.Edit, ownersChange bool) pods {
	names := func(first, last int) (list []string) {
		for i := first; i < last; i++ {
			list = append(list, naming.Pod(next.Name, i))
		}
		return list
	}
	had, has := int(replicas), int(ptr.Deref(next.Spec.Replicas, 1))
	told := pods{stay: min(had, has), Created: names(had, has), Removed: names(has, had)}
	if e.NewPods {
		told.Replaced = names(0, told.stay)
	}
	told.Reload = (e.NewRevision || ownersChange) && !e.NewPods && told.stay > 0
	return told
}

// claimsOf returns which claims are created, deleted or enlarged. before contains the sizes of the existing claims,
// by disk.
func claimsOf(before map[string]resource.Quantity, next *v1alpha1.CacheNode) (list []claim) {
	kept := map[string]bool{}
	for _, d := range next.Spec.Disks {
		kept[d.Name] = true
		switch size, known := before[d.Name]; {
		case !known:
			list = append(list, claim{Disk: d.Name, Action: claimCreate, To: d.Size.String()})
		case size.Cmp(d.Size) < 0:
			list = append(list, claim{Disk: d.Name, Action: claimGrow, From: size.String(), To: d.Size.String()})
		}
	}
	for _, disk := range slices.Sorted(maps.Keys(before)) {
		if !kept[disk] {
			list = append(list, claim{Disk: disk, Action: claimDelete})
		}
	}
	return list
}
