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

// result is what an edit does. It is also what the verb says to programs: fields are only added.
type result struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// Outcome is the worst that happens: Nothing, Changes or Loss.
	Outcome outcome `json:"outcome"`
	// Revision is the one that the pods run, if it is older than the present spec. It is what the edit is compared with.
	Revision string `json:"revision,omitempty"`
	// Keys are the keys that move between disks, Owners those that move between pods.
	Keys   movement `json:"keys"`
	Owners *owners  `json:"owners,omitempty"`
	// Cached is what the edit does to cached objects besides that.
	Cached []edit.Cached `json:"cached,omitempty"`
	// Acknowledge is the value of the annotation cachenode.io/acknowledged-key-movement that the edit waits for.
	Acknowledge string  `json:"acknowledge,omitempty"`
	Fields      []field `json:"fields,omitempty"`
	// Chosen says what the operator chooses differently.
	Chosen []string `json:"chosen,omitempty"`
	Pods   pods     `json:"pods"`
	Claims []claim  `json:"claims,omitempty"`
}

// outcome is the worst that an edit does.
type outcome string

const (
	// nothing: no field, pod, key or claim changes.
	nothing outcome = "Nothing"
	// changed: something changes, also a field that touches no pod. What is cached is found again.
	changed outcome = "Changes"
	// loss: keys move, or cached objects are not found any more.
	loss outcome = "Loss"
)

// code returns what the plugin exits with.
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

// movement is how many keys move. Ratios are from 0 to 1.
type movement struct {
	Ratio float64 `json:"ratio"`
	// Least is what any plan must move.
	Least float64 `json:"least"`
	// Bytes is the size of what moves, Cached that of everything in the caches. Both are estimates of the agents, up to a
	// minute old; left out if they are not known.
	Bytes  *int64 `json:"bytes,omitempty"`
	Cached *int64 `json:"cachedBytes,omitempty"`
	Moves  []move `json:"moves,omitempty"`
}

// move is the movement from one disk to another.
type move struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Ratio float64 `json:"ratio"`
	Bytes *int64  `json:"bytes,omitempty"`
}

// owners is how many keys get another pod, which fills them from the previous one for a while.
type owners struct {
	Ratio           float64 `json:"ratio"`
	Least           float64 `json:"least"`
	HandoverSeconds float64 `json:"handoverSeconds"`
}

// field is a field that changes, and what the change does by itself.
type field struct {
	Path string `json:"path"`
	// From and To are the values, shortened.
	From   string `json:"from"`
	To     string `json:"to"`
	Effect string `json:"effect"`
}

// pods says how the pods take the edit.
type pods struct {
	Replaced []string `json:"replaced,omitempty"`
	Created  []string `json:"created,omitempty"`
	Removed  []string `json:"removed,omitempty"`
	// Reload is true if nginx reloads in the pods that are not replaced.
	Reload bool `json:"reload"`
	// stay is how many pods there are before and after.
	stay int
}

// claim says what the edit does to the claims for a disk.
type claim struct {
	Disk string `json:"disk"`
	// Action is Create, Grow or Delete.
	Action string `json:"action"`
	// From and To are sizes.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// What happens to claims.
const (
	claimCreate = "Create"
	claimGrow   = "Grow"
	claimDelete = "Delete"
)

// compare says what an edit of asked changes, compared with what runs before. used is, by disk, how many bytes the
// disk's cache takes over all pods; nil if unknown.
func compare(
	asked *v1alpha1.CacheNode, before running, next *v1alpha1.CacheNode, used map[string]int64,
) (result, error) {
	now := effective.Of(asked, before.tier)
	next = next.DeepCopy()
	next.Namespace, next.Annotations = now.Namespace, now.Annotations // what a file leaves out is no change
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

// outcome returns the worst that happens.
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

// handover says for people how long the new owners fill keys from the previous ones.
func (o owners) handover() string {
	return duration.HumanDuration(time.Duration(o.HandoverSeconds * float64(time.Second)))
}

// podsOf says how the pods take an edit. nginx reloads for a change of the pods that own keys, too.
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

// claimsOf says which claims are created, deleted or enlarged. before has the sizes of the existing claims, by disk.
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
