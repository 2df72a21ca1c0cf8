package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/fleet"
)

// TestCertificateExpires checks that the status warns early enough before the certificate of listen.tls expires. It
// also checks when the operator must look again.
func TestCertificateExpires(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		lifetime, left time.Duration
		want           string
		again          time.Duration
	}{
		"a year, and months left":       {365 * day, 100 * day, v1alpha1.ReasonAsExpected, 86 * day},
		"a year, and two weeks left":    {365 * day, 14 * day, v1alpha1.ReasonCertificateExpires, 14 * day},
		"a day, and a third of it left": {day, 8 * time.Hour, v1alpha1.ReasonAsExpected, 4 * time.Hour},
		"a day, and three hours left":   {day, 3 * time.Hour, v1alpha1.ReasonCertificateExpires, 3 * time.Hour},
		"expired":                       {day, 0, v1alpha1.ReasonCertificateExpired, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Facts{
				CacheNode: &v1alpha1.CacheNode{}, Now: now,
				Certificate: CertificateOf(now.Add(tt.left-tt.lifetime), now.Add(tt.left)),
				Rollout:     &Rollout{Done: true, Settled: true}, StatefulSet: statefulSet(1, 1, 1, 1, 1, 1),
			}
			f.CacheNode.Spec.Listen.TLS = &v1alpha1.ListenTLS{SecretName: "web"}
			got := Of(f)
			if c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionDegraded); c.Reason != tt.want {
				t.Errorf("Degraded is %s: %s, want %s", c.Reason, c.Message, tt.want)
			}
			if again := f.LookAgain(); again != tt.again {
				t.Errorf("it looks again after %s, want %s", again, tt.again)
			}
			// A pass that does not read the Secret keeps the entry of the previous status.
			f.CacheNode.Status, f.Certificate = got, nil
			if diff := cmp.Diff(got.ListenerCertificate, Of(f).ListenerCertificate); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			f.CacheNode.Spec.Listen.TLS = nil
			if c := Of(f).ListenerCertificate; c != nil {
				t.Errorf("without listen.tls, the status has %v", c)
			}
		})
	}
}

// TestEvictionsWait checks the condition and the event while kubectl drain must wait. Both contain the name of the
// disruption budget and the time until which it refuses evictions.
func TestEvictionsWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		guard       fleet.Guard
		isAnnounced bool
		reason      string
		message     string
	}{
		"no pod leaves": {
			fleet.NeedsCordon, false, v1alpha1.ReasonCordonFirst,
			"PodDisruptionBudget edge allows an eviction 10m after the cordon of its node, " +
				"when the pod has handed its keys over",
		},
		"a node was cordoned a moment ago": {
			fleet.HandingOver, true, v1alpha1.ReasonCordonFirst,
			"PodDisruptionBudget edge allows an eviction 10m after the cordon of its node, " +
				"when the pod has handed its keys over",
		},
		"a pod hands its keys over": {
			fleet.HandingOver, false, v1alpha1.ReasonHandingOver,
			"PodDisruptionBudget edge refuses evictions until 2026-11-24T12:00:00Z, while pods hand their keys over; " +
				"kubectl drain tries again until then",
		},
		"it has": {
			fleet.HandedOver, false, v1alpha1.ReasonHandedOver,
			"PodDisruptionBudget edge allows evictions within spec.disruption.maxUnavailable: the pods of cordoned nodes " +
				"have handed their keys over",
		},
		"there is nobody to hand them over to": {
			fleet.Unguarded, false, v1alpha1.ReasonBudgetOpen,
			"PodDisruptionBudget edge allows evictions within spec.disruption.maxUnavailable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := sharing()
			f.Sharing.Guard = tt.guard
			if f.Sharing.Announced = tt.isAnnounced; tt.isAnnounced { // an upper limit, see fleet.Decide
				f.Sharing.State.Until = f.Now.Add(10 * time.Second)
			}
			after := Of(f)
			if r := after.Routing; (r.HandoverUntil == nil) != tt.isAnnounced {
				t.Errorf("keys are handed over until %s", r.HandoverUntil)
			}
			c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionEvictionsWait)
			waits := tt.reason == v1alpha1.ReasonHandingOver
			if c.Reason != tt.reason || c.Message != tt.message || (c.Status == "True") != waits {
				t.Errorf("%s, %s: %s\nwant %s: %s", c.Status, c.Reason, c.Message, tt.reason, tt.message)
			}
			var told []string
			for _, e := range func() []Event { list, _ := Events(f, after); return list }() {
				if e.Reason == v1alpha1.ReasonHandingOver {
					told = append(told, e.Note)
				}
			}
			if (len(told) == 1 && told[0] == tt.message) != waits {
				t.Errorf("the events are %q", told)
			}
		})
	}
}

// TestEvictionsOfAnUndecidedPass checks the condition after a pass that did not decide which pod owns which keys. If
// the pass failed, the condition stays the same. While the spec is not accepted, the condition says that the budget is
// open.
func TestEvictionsOfAnUndecidedPass(t *testing.T) {
	t.Parallel()
	f := sharing()
	f.Sharing.Guard = fleet.HandingOver
	f.CacheNode.Status = Of(f)
	f.Rollout, f.Sharing = nil, &fleet.Decision{State: f.Sharing.State}
	before := meta.FindStatusCondition(f.CacheNode.Status.Conditions, v1alpha1.ConditionEvictionsWait)
	after := meta.FindStatusCondition(Of(f).Conditions, v1alpha1.ConditionEvictionsWait)
	if diff := cmp.Diff(before, after); diff != "" || before.Reason != v1alpha1.ReasonHandingOver {
		t.Errorf("a pass that failed (-before +after)\n%s", diff)
	}
	f.Problem = &Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "wrong", Stalled: true}
	after = meta.FindStatusCondition(Of(f).Conditions, v1alpha1.ConditionEvictionsWait)
	if after.Reason != v1alpha1.ReasonBudgetOpen {
		t.Errorf("while the spec is not accepted: %s, want %s", after.Reason, v1alpha1.ReasonBudgetOpen)
	}
}
