package drain

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// TestDrain follows a drain until the budget opens: it cordons the node, says what it waits for, leaves other pods
// alone, and ends when the cache pod is gone.
func TestDrain(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	pod := func(name, node string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: labels}, Spec: corev1.PodSpec{NodeName: node},
		}
	}
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
	nodeOf := func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }
	c := fake.NewClientBuilder().WithScheme(apiserver.Scheme(t)).WithStatusSubresource(cacheNode).
		WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOf).
		WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, cacheNode,
			pod("edge-0", "node-1", labels), pod("edge-1", "node-2", labels), pod("web-0", "node-1", nil)).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: func(
			ctx context.Context, c client.Client, sub string, o, eviction client.Object,
			options ...client.SubResourceCreateOption,
		) error {
			if tries++; tries <= 4 {
				return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			}
			return c.SubResource(sub).Create(ctx, o, eviction, options...)
		}}).Build()
	var out strings.Builder
	now := noon
	d := drainer{
		Client: c, node: "node-1", out: &out,
		now: func() time.Time { return now }, said: map[client.ObjectKey]string{},
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

	// The time is over.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.run(ctx); err == nil {
		t.Error("a drain whose time is over ends without an error")
	}
}
