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

// routing says how the pods share the keys; nil if they do not.
func (f Facts) routing() *v1alpha1.RoutingStatus {
	if f.Sharing == nil {
		return nil
	}
	s := f.Sharing.State
	owners := int32(s.Owning()) //nolint:gosec // at most fleet.MaxMembers
	status := &v1alpha1.RoutingStatus{Owners: owners, Zones: zones(s.Fleet)}
	pods, applied := 0, 0
	for _, p := range f.Pods {
		if !p.DeletionTimestamp.IsZero() {
			continue
		}
		if pods++; p.Report != nil && p.Report.FleetSerial == s.Serial {
			applied++
		}
	}
	status.Applied = fmt.Sprintf("%d/%d", applied, pods)
	if !s.Until.IsZero() && !f.Sharing.Announced { // otherwise it has not begun
		status.HandoverUntil = new(metav1.NewTime(s.Until))
	}
	return status
}

// ownersAreKnown returns true if all pods that can route by the present owners of keys do, or if pods do not share
// keys.
func (f Facts) ownersAreKnown() bool {
	return f.Sharing == nil || !slices.ContainsFunc(f.Pods, func(p Pod) bool {
		return p.DeletionTimestamp.IsZero() && !p.Silent && p.Report != nil &&
			p.Report.FleetSerial != f.Sharing.State.Serial && p.Annotations[naming.AnnotationPeers] != "" &&
			slices.Contains(p.Report.Features, agentapi.FeatureRouting)
	})
}

// zones returns how many pods own keys in each zone; "" if there are no zones.
func zones(f fleet.Fleet) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.Zones)) {
		list = append(list, fmt.Sprintf("%s=%d", cmp.Or(name, "none"), len(f.Zones[name].Present())))
	}
	return strings.Join(list, " ")
}

// share returns the part of the keys that a pod owns; "" if pods do not share them.
func (f Facts) share(pod string) string {
	ordinal, ok := naming.Ordinal(f.CacheNode.Name, pod)
	if f.Sharing == nil || !ok {
		return ""
	}
	plan, ok := f.Sharing.State.For(ordinal).Plan()
	if !ok {
		return shard.Percent(0)
	}
	return shard.Percent(plan.Share(fleet.Name(ordinal)))
}

// handover says that a pod owns no keys, and why; "" if it owns some or never did.
func (f Facts) handover(pod string) string {
	ordinal, ok := naming.Ordinal(f.CacheNode.Name, pod)
	if f.Sharing == nil || !ok {
		return ""
	}
	s := f.Sharing.State.For(ordinal)
	until := f.Sharing.State.Until.UTC().Format(time.RFC3339)
	switch {
	case int32(ordinal) >= f.wanted() && f.Sharing.State.Until.IsZero(): //nolint:gosec // small
		return "it is to be removed"
	case int32(ordinal) >= f.wanted() && ordinal < f.Sharing.Keep: //nolint:gosec // small
		return fmt.Sprintf("it hands its keys over until %s, and is then removed", until)
	case slices.Contains(s.Away, ordinal) && slices.Contains(s.Previous.Present(), ordinal):
		return fmt.Sprintf("other pods have its keys, and fill them from it until %s", until)
	case slices.Contains(s.Away, ordinal):
		return "other pods have its keys"
	}
	return ""
}

// oldAgents returns the pods that would share keys if their agents knew how.
func (f Facts) oldAgents() (pods []string) {
	for _, p := range f.Pods {
		if f.Sharing != nil && p.Report != nil && p.Annotations[naming.AnnotationPeers] != "" &&
			!slices.Contains(p.Report.Features, agentapi.FeatureRouting) {
			pods = append(pods, p.Name)
		}
	}
	return pods
}
