package drain

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// TestDrain follows a drain until the budget allows the eviction. The drain must cordon the node, print what it waits
// for, leave other pods alone, and end when the cache pod is gone.
func TestDrain(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	cacheNode := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "edge"}}
	condition := func(status metav1.ConditionStatus, reason string) {
		cacheNode.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionEvictionsWait, Status: status, Reason: reason},
		}
	}
	condition(metav1.ConditionFalse, v1alpha1.ReasonCordonFirst)
	labels := naming.PodSelector("edge")
	labels[naming.LabelManagedBy] = naming.FieldManager
	tries := 0
	c := fake.NewClientBuilder().WithScheme(apiserver.Scheme(t)).WithStatusSubresource(cacheNode).
		WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOf).
		WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, cacheNode,
			pod("edge-0", "node-1", labels), pod("edge-1", "node-2", labels), pod("web-0", "node-1", nil)).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: func(
			ctx context.Context, c client.Client, sub string, o, eviction client.Object,
			options ...client.SubResourceCreateOption,
		) error {
			if tries++; tries <= 4 {
				return refused()
			}
			return c.SubResource(sub).Create(ctx, o, eviction, options...)
		}}).Build()
	var out strings.Builder
	now := noon
	d := drainer{
		Client: c, node: "node-1", out: &out,
		now: func() time.Time { return now }, said: map[string]string{},
	}
	d.wait = func(ctx context.Context) {
		now = now.Add(30 * time.Second)
		condition(metav1.ConditionTrue, v1alpha1.ReasonHandingOver)
		cacheNode.Status.Routing = &v1alpha1.RoutingStatus{HandoverUntil: new(metav1.NewTime(noon.Add(2 * time.Minute)))}
		if err := c.Status().Update(ctx, cacheNode); err != nil {
			t.Error(err)
		}
	}
	if err := d.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `node node-1: cordoned
pod a/edge-0: waits until the operator has seen the cordon, and the hand-over begins
pod a/edge-0: waits until 2026-11-26T12:02:00Z, while keys are handed over: 2 min left
pod a/edge-0: waits until 2026-11-26T12:02:00Z, while keys are handed over: 1 min left
pod a/edge-0: evicted
node node-1: no cache pod is left
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	pods := &corev1.PodList{}
	if err := c.List(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 2 {
		t.Errorf("%d pods are left, want that of the other node and that of others", len(pods.Items))
	}
}

// refused returns the API server's answer to an eviction that a budget does not allow.
func refused() error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget edge needs 2 healthy pods and has 2 currently",
	}}
	return err
}

// TestWaits checks the message about a pod whose eviction is refused.
func TestWaits(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		reason string
		until  time.Duration
		want   string
	}{
		"no condition yet": {"", 0, "waits until more pods are ready"},
		"the cordon has not been seen": {
			v1alpha1.ReasonCordonFirst, 0, "waits until the operator has seen the cordon, and the hand-over begins",
		},
		"ten minutes": {
			v1alpha1.ReasonHandingOver, 10 * time.Minute,
			"waits until 2026-11-26T12:10:00Z, while keys are handed over: 10 min left",
		},
		"a second": {
			v1alpha1.ReasonHandingOver, time.Second, "waits until 2026-11-26T12:00:01Z, while keys are handed over: 1 min left",
		},
		"the operator has not decided again": {
			v1alpha1.ReasonHandingOver, -time.Second, "waits until the budget allows it: the keys have been handed over",
		},
		"another pod is down": {
			v1alpha1.ReasonHandedOver, 0, "waits until more pods are ready or spec.disruption.maxUnavailable is raised: " +
				"The disruption budget edge needs 2; to see which: kubectl cachenode status edge -n a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "edge"}}
			status := metav1.ConditionFalse
			if tt.until != 0 {
				status = metav1.ConditionTrue
				c.Status.Routing = &v1alpha1.RoutingStatus{HandoverUntil: new(metav1.NewTime(noon.Add(tt.until)))}
			}
			c.Status.Conditions = []metav1.Condition{
				{Type: v1alpha1.ConditionEvictionsWait, Status: status, Reason: tt.reason},
			}
			if got := waits(c, "The disruption budget edge needs 2", noon); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestTries checks which errors of the API server end a drain, and which error the drain then returns.
func TestTries(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	pods := policyv1.Resource("pods")
	for name, tt := range map[string]struct {
		ctx     context.Context
		refusal []error // returned one after another; then the eviction succeeds
		want    string
		err     string
	}{
		"the budget refuses, and the CacheNode is gone": {
			t.Context(), []error{refused()}, "pod a/edge-0: waits: Cannot evict pod as it would violate", "",
		},
		"the API server has too much to do": {
			t.Context(),
			[]error{apierrors.NewTooManyRequestsError("later")},
			"pod a/edge-0: waits: Too many requests: later", "",
		},
		"the API server is restarted": {
			t.Context(),
			[]error{apierrors.NewServiceUnavailable("not yet"), syscall.ECONNREFUSED, &url.Error{Err: io.EOF}},
			"node node-1: waits: evict pod a/edge-0: connection refused", "",
		},
		"a right is missing": {
			t.Context(), []error{apierrors.NewForbidden(pods, "edge-0", nil)}, "", "is forbidden",
		},
		"two budgets": {
			t.Context(), []error{apierrors.NewInternalError(errors.New("more than one budget"))}, "", "more than one budget",
		},
		"the time is over": {over, nil, "", "the time is over; node node-1 stays cordoned, and hand-overs go on"},
		"Ctrl-C":           {interrupted, nil, "", "interrupted; node node-1 stays cordoned, and hand-overs go on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			labels := naming.PodSelector("edge")
			labels[naming.LabelManagedBy] = naming.FieldManager
			c := fake.NewClientBuilder().WithScheme(apiserver.Scheme(t)).
				WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOf).
				WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, pod("edge-0", "node-1", labels)).
				WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: func(
					ctx context.Context, c client.Client, sub string, o, eviction client.Object,
					options ...client.SubResourceCreateOption,
				) error {
					if len(tt.refusal) == 0 {
						return c.SubResource(sub).Create(ctx, o, eviction, options...)
					}
					err := tt.refusal[0]
					tt.refusal = tt.refusal[1:]
					return err
				}}).Build()
			var out strings.Builder
			d := drainer{
				Client: c, node: "node-1", out: &out, said: map[string]string{}, wait: func(context.Context) {},
				now: func() time.Time { return time.Unix(1_800_000_000, 0) },
			}
			err := d.run(tt.ctx)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if !strings.Contains(out.String(), tt.want) || len(tt.refusal) > 0 {
				t.Errorf("%d errors are left; got\n%s\nwant %s", len(tt.refusal), out.String(), tt.want)
			}
		})
	}
}

func pod(name, node string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: labels}, Spec: corev1.PodSpec{NodeName: node},
	}
}

func nodeOf(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }
