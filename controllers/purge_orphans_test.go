package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/steps"
)

// TestStripTenants checks that the operator's cache contains no field that tenants can make long and that the operator
// does not need.
func TestStripTenants(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<18)
	meta := metav1.ObjectMeta{
		Name: "a", Namespace: "b", UID: "c", Annotations: map[string]string{"a": long},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: long}},
	}
	cp := &v1alpha1.CachePurge{ObjectMeta: meta, Spec: v1alpha1.CachePurgeSpec{
		CacheNode: "edge", URLs: []string{long}, Prefixes: []string{long}, Hosts: []string{long}, Tags: []string{long},
		TTLSecondsAfterFinished: new(int32(7)),
	}}
	cp.Labels, cp.Finalizers = map[string]string{"a": long}, []string{long}
	cp.OwnerReferences = []metav1.OwnerReference{{Name: long}}
	cp.Status = v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeFailed, Message: long, Number: 7}
	cp.Status.Pods = []v1alpha1.PurgePodStatus{{Message: long}}
	cacheNode := &v1alpha1.CacheNode{ObjectMeta: *meta.DeepCopy()}
	cacheNode.Annotations["drain.cachenode.io/edge-0.disk1"] = "true"
	cacheNode.Annotations[v1alpha1.AnnotationRestart] = "1"
	bare := metav1.ObjectMeta{Name: "a", Namespace: "b", UID: "c"}
	annotated := *bare.DeepCopy()
	annotated.Annotations = map[string]string{
		"drain.cachenode.io/edge-0.disk1": "true", v1alpha1.AnnotationRestart: "1",
	}
	packed := &corev1.ConfigMap{ObjectMeta: bare, BinaryData: map[string][]byte{naming.StableKey: []byte(long)}}
	journal := &corev1.ConfigMap{ObjectMeta: *bare.DeepCopy()}
	journal.BinaryData = map[string][]byte{naming.PurgesKey: []byte(long)}
	for name, tt := range map[string]struct{ object, want client.Object }{
		"a purge": {cp, &v1alpha1.CachePurge{
			ObjectMeta: bare,
			Spec:       v1alpha1.CachePurgeSpec{CacheNode: "edge", TTLSecondsAfterFinished: new(int32(7))},
			Status:     v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeFailed, Number: 7},
		}},
		"a CacheNode": {cacheNode, &v1alpha1.CacheNode{ObjectMeta: annotated}},
		"a journal":   {journal, &corev1.ConfigMap{ObjectMeta: bare, BinaryData: map[string][]byte{}}},
		"a revision":  {packed.DeepCopy(), packed},
	} {
		got, err := stripTenants(tt.object)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v (-want +got)\n%.2000s", name, err, diff)
		}
	}
}

// TestOrphans checks purges of a CacheNode that does not exist. They fail after an hour and are deleted after a day. If
// the CacheNode is created in time, they are carried out, although the operator's cache does not contain what they
// purge.
func TestOrphans(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	ctx := context.Background()
	create := func(name, cacheNode string) *v1alpha1.CachePurge {
		cp := &v1alpha1.CachePurge{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		cp.Spec = v1alpha1.CachePurgeSpec{CacheNode: cacheNode, Tags: []string{strings.Repeat("x", 200)}}
		must(t, o.client.Create(ctx, cp))
		return cp
	}
	isGone := func(cp *v1alpha1.CachePurge) {
		t.Helper()
		o.eventually(func() string {
			if apierrors.IsNotFound(o.client.Get(ctx, client.ObjectKeyFromObject(cp), cp)) {
				return ""
			}
			return cp.Name + " is still there: " + string(cp.Status.Phase)
		})
	}
	first := create("first", "none")
	o.reaches(v1alpha1.PurgePending, "there is no CacheNode none in namespace default", first)
	steps.Run(t, "the operator's cache has no spec", func() {
		cached := &v1alpha1.CachePurge{}
		must(t, o.reconciler.Get(ctx, client.ObjectKeyFromObject(first), cached))
		want := v1alpha1.CachePurgeSpec{CacheNode: "none"}
		if diff := cmp.Diff(want, cached.Spec); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	steps.Run(t, "after an hour", func() {
		o.clock.Step(purge.MissingPatience + time.Minute)
		second := create("second", "none") // this causes another pass
		o.reaches(v1alpha1.PurgeFailed, "there was no CacheNode none in namespace default for an hour", first, second)
	})
	steps.Run(t, "after a day", func() {
		o.clock.Step(purge.MissingTTL)
		create("third", "none")
		isGone(first)
	})
	steps.Run(t, "a CacheNode that comes in time", func() {
		var early []*v1alpha1.CachePurge
		for i := range specsAtOnce + 1 {
			early = append(early, create(fmt.Sprintf("early-%d", i), "edge"))
		}
		o.reaches(v1alpha1.PurgePending, "there is no CacheNode edge", early...)
		o.create(oneDisk)
		o.reaches(v1alpha1.PurgeApplied, "", early...)
		rules := readJournal(t, o).Rules
		if len(rules) != len(early) {
			t.Fatalf("the journal has %d purges, want %d", len(rules), len(early))
		}
		for _, r := range rules {
			if diff := cmp.Diff(early[0].Spec.Tags, r.Tags); diff != "" {
				t.Errorf("%s (-want +got)\n%s", r.Name, diff)
			}
		}
	})
}
