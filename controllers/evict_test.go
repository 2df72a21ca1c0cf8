package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// evictions waits until the budget forbids evictions for the given reason. With the reason "", it waits until the
// budget allows evictions.
func (o *operator) evictions(cacheNode *v1alpha1.CacheNode, reason string) {
	o.t.Helper()
	budget := &policyv1.PodDisruptionBudget{}
	budget.Name, budget.Namespace = cacheNode.Name, cacheNode.Namespace
	o.eventually(func() string {
		if err := o.client.Get(context.Background(), client.ObjectKeyFromObject(budget), budget); err != nil {
			return err.Error()
		}
		why, allowed := budget.Annotations[naming.AnnotationEvictions], budget.Spec.MaxUnavailable.IntValue()
		if why != reason || (allowed == 0) != (reason != "") {
			return fmt.Sprintf("maxUnavailable is %d because of %q, and the reason is to be %q", allowed, why, reason)
		}
		return ""
	})
}

// TestReplaceAlone checks that the operator replaces exactly one pod at a time, although the budget forbids evictions.
// In this test, no controller sets the budget's status.
func TestReplaceAlone(t *testing.T) {
	t.Parallel()
	a := newAgents()
	o := startOperator(t, apiserver.Shared(t), func(r *CacheNodeReconciler) { r.Agents.Calls.Report = a.read })
	a.set(func() { a.o = o })
	cacheNode := o.create(strings.Replace(edge, "replicas: 2", "replicas: 3\n  routing: {mode: Sharded}", 1))
	set := children(cacheNode)[0].(*appsv1.StatefulSet)
	o.eventually(func() string { // the operator applies this object last
		if err := o.client.Get(context.Background(), client.ObjectKeyFromObject(set), set); err != nil {
			return err.Error()
		}
		return ""
	})
	o.evictions(cacheNode, "")
	o.makePods(cacheNode, 3)
	o.rollOut(cacheNode)
	o.evictions(cacheNode, naming.EvictionsNeedCordon)
	// While the spec is not accepted, no keys are handed over. So evictions need not wait for a hand-over.
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) {
		missing := &v1alpha1.CABundle{Secret: &v1alpha1.KeyReference{Name: "missing"}}
		s.Origin.Scheme, s.Origin.TLS = "https", &v1alpha1.OriginTLS{CABundle: missing}
	})
	o.evictions(cacheNode, "")
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Origin.Scheme, s.Origin.TLS = "http", nil })
	o.evictions(cacheNode, naming.EvictionsNeedCordon)
	o.get(set)
	input := set.Spec.Template.Annotations[naming.AnnotationInput]
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Disks[0].Cache.KeysZone = new(resource.MustParse("16Mi")) })
	o.eventually(func() string {
		if o.get(set); set.Spec.Template.Annotations[naming.AnnotationInput] == input {
			return "the template is that of before"
		}
		return ""
	})
	o.rollOut(cacheNode)
	ending := func() (names []string) {
		pods := &corev1.PodList{}
		must(t, o.client.List(context.Background(), pods, client.MatchingLabels(naming.PodSelector(cacheNode.Name))))
		for _, pod := range pods.Items {
			if !pod.DeletionTimestamp.IsZero() {
				names = append(names, pod.Name)
			}
		}
		return names
	}
	o.eventually(func() string {
		if len(ending()) == 1 {
			return ""
		}
		o.get(cacheNode)
		return fmt.Sprintf("%v are being deleted: %s", ending(), describe(cacheNode))
	})
	o.settle(cacheNode)
	if got := ending(); len(got) != 1 {
		t.Errorf("%v are being deleted at a time", got)
	}
}
