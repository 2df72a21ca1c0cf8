package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// routing describes how the pods of a CacheNode share the keys. The decision is nil if each pod serves all keys.
type routing struct {
	decision  *fleet.Decision
	pods      []Pod
	cacheNode string
	// wanted is the number of pods that the spec asks for.
	wanted int32
}

func (f Facts) routing() routing {
	return routing{decision: f.Sharing, pods: f.Pods, cacheNode: f.CacheNode.Name, wanted: f.wanted()}
}

// status returns how the pods share the keys; nil if each pod serves all keys.
func (r routing) status() *v1alpha1.RoutingStatus {
	if r.decision == nil {
		return nil
	}
	s := r.decision.State
	owners := int32(s.Owning()) //nolint:gosec // at most fleet.MaxMembers
	status := &v1alpha1.RoutingStatus{Owners: owners, Zones: zones(s.Fleet)}
	pods, applied := 0, 0
	for _, p := range r.pods {
		if !p.DeletionTimestamp.IsZero() {
			continue
		}
		if pods++; p.Report != nil && p.Report.FleetSerial == s.Serial {
			applied++
		}
	}
	status.Applied = fmt.Sprintf("%d/%d", applied, pods)
	if !s.Until.IsZero() && !r.decision.Announced { // while it is announced, the hand-over has not begun
		status.HandoverUntil = new(metav1.NewTime(s.Until))
	}
	return status
}

// ownersAreKnown returns true if all pods have received the present assignment of keys to owners. Pods that cannot use
// it, such as pods with silent or old agents, do not count. It also returns true if pods do not share keys.
func (r routing) ownersAreKnown() bool {
	return r.decision == nil || !slices.ContainsFunc(r.pods, func(p Pod) bool {
		return p.DeletionTimestamp.IsZero() && !p.Silent && p.Report != nil &&
			p.Report.FleetSerial != r.decision.State.Serial && p.Annotations[naming.AnnotationPeers] != "" &&
			slices.Contains(p.Report.Features, agentapi.FeatureRouting)
	})
}

// zones returns the number of pods that own keys in each zone; "" if there are no zones.
func zones(f fleet.Fleet) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.Zones)) {
		list = append(list, fmt.Sprintf("%s=%d", cmp.Or(name, "none"), len(f.Zones[name].Present())))
	}
	return strings.Join(list, " ")
}

// share returns the share of the keys that a pod owns; "" if pods do not share the keys.
func (r routing) share(pod string) string {
	ordinal, ok := naming.Ordinal(r.cacheNode, pod)
	if r.decision == nil || !ok {
		return ""
	}
	plan, ok := r.decision.State.For(ordinal).Plan()
	if !ok {
		return shard.Percent(0)
	}
	return shard.Percent(plan.Share(fleet.Name(ordinal)))
}

// handover returns a message about a pod that will be removed, or whose keys now belong to other pods; "" for any other
// pod.
func (r routing) handover(pod string) string {
	ordinal, ok := naming.Ordinal(r.cacheNode, pod)
	if r.decision == nil || !ok {
		return ""
	}
	s := r.decision.State.For(ordinal)
	until := r.decision.State.Until.UTC().Format(time.RFC3339)
	switch {
	case int32(ordinal) >= r.wanted && r.decision.State.Until.IsZero(): //nolint:gosec // small
		return "it is to be removed"
	case int32(ordinal) >= r.wanted && ordinal < r.decision.Keep: //nolint:gosec // small
		return fmt.Sprintf("it hands its keys over until %s, and is then removed", until)
	case slices.Contains(s.Away, ordinal) && slices.Contains(s.Previous.Present(), ordinal):
		return fmt.Sprintf("other pods have its keys, and fill them from it until %s", until)
	case slices.Contains(s.Away, ordinal):
		return "other pods have its keys"
	}
	return ""
}

// oldAgents returns the pods whose agents are too old to share keys.
func (r routing) oldAgents() (pods []string) {
	for _, p := range r.pods {
		if r.decision != nil && p.Report != nil && p.Annotations[naming.AnnotationPeers] != "" &&
			!slices.Contains(p.Report.Features, agentapi.FeatureRouting) {
			pods = append(pods, p.Name)
		}
	}
	return pods
}
