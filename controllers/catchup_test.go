package controllers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/status"
)

// TestEventsAreToldOnce checks that a pass repeats no event while the informer cache does not yet show the status that
// the operator wrote last.
func TestEventsAreToldOnce(t *testing.T) {
	t.Parallel()
	cacheNode := func(version string) *v1alpha1.CacheNode {
		return &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Name: "edge", ResourceVersion: version}}
	}
	for name, tt := range map[string]struct {
		shown  string
		events int
	}{
		"the cache lags behind":               {"7", 0},
		"by a digit":                          {"9", 0},
		"the cache shows the status":          {"10", 0},
		"somebody has emptied the status":     {"11", 1},
		"the version does not say what it is": {"a", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fails := v1alpha1.CacheNodeStatus{Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPodsNotReady,
			}}}
			l := lasting{written: cacheNode("10")}
			fails.DeepCopyInto(&l.written.Status)
			shown := cacheNode(tt.shown)
			if tt.shown == "10" {
				fails.DeepCopyInto(&shown.Status)
			}
			l.catchUp(shown)
			events, _ := status.Events(status.Facts{CacheNode: shown}, fails)
			if len(events) != tt.events {
				t.Errorf("the events are %+v, want %d", events, tt.events)
			}
			if keeps := l.written != nil; keeps != (tt.shown == "7" || tt.shown == "9") {
				t.Errorf("the status is kept for the next pass: %t", keeps)
			}
		})
	}
}

// TestSharingOfARefusedSpec checks that the status shows which pods own keys, even while the spec is not accepted.
func TestSharingOfARefusedSpec(t *testing.T) {
	t.Parallel()
	shares := &agentapi.Revision{}
	shares.Spec.Routing.Mode = v1alpha1.RoutingSharded
	state := fleet.State{Fleet: fleet.Of(3)}
	observes := func(stable *agentapi.Revision) observed {
		return observed{offered: offered{stable: stable, sharing: state}}
	}
	for name, tt := range map[string]struct {
		pass finished
		want *fleet.Decision
	}{
		"refused": {
			finished{pass: pass{observed: observes(shares)}}, &fleet.Decision{State: state},
		},
		"pods do not share keys": {
			finished{pass: pass{observed: observes(&agentapi.Revision{})}}, nil,
		},
		"nothing is known": {finished{}, nil},
		"accepted, with mode Local": {
			finished{
				pass:   pass{observed: observes(shares), wanted: localMode()},
				rolled: rolled{rollout: &status.Rollout{}},
			}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.pass.shown()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func localMode() (w wanted) {
	w.effective.CacheNode = &v1alpha1.CacheNode{}
	w.effective.Spec.Routing.Mode = v1alpha1.RoutingLocal
	return w
}
