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
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/steps"
)

// TestOrphan checks when a purge fails, and when it is deleted, whose CacheNode does not exist.
func TestOrphan(t *testing.T) {
	t.Parallel()
	const (
		waits  = "there is no CacheNode edge in namespace shop"
		failed = "there was no CacheNode edge in namespace shop for an hour"
		half   = time.Hour / 2
	)
	type status = v1alpha1.CachePurgeStatus
	applied := status{Number: 7, Phase: v1alpha1.PurgeApplied}
	now := time.Unix(1_800_000_000, 0)
	for name, tt := range map[string]struct {
		created, since time.Duration // ago
		before         status
		phase          v1alpha1.PurgePhase
		message        string
		left           time.Duration
	}{
		"new":                        {0, 0, status{}, v1alpha1.PurgePending, waits, time.Hour},
		"after half an hour":         {half, half, status{}, v1alpha1.PurgePending, waits, half},
		"after an hour":              {time.Hour, time.Hour, status{}, v1alpha1.PurgeFailed, failed, 0},
		"the CacheNode was there":    {9 * time.Hour, half, status{}, v1alpha1.PurgePending, waits, half},
		"created later":              {half, 9 * time.Hour, status{}, v1alpha1.PurgePending, waits, half},
		"it had a place":             {0, half, status{Number: 7, Phase: "Pending"}, v1alpha1.PurgePending, waits, time.Hour},
		"it was applied":             {9 * time.Hour, 0, applied, v1alpha1.PurgeApplied, "", time.Hour},
		"it was applied an hour ago": {9 * time.Hour, time.Hour, applied, v1alpha1.PurgeSettled, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cp := &v1alpha1.CachePurge{Spec: v1alpha1.CachePurgeSpec{CacheNode: "edge"}, Status: tt.before}
			cp.Namespace, cp.CreationTimestamp = "shop", metav1.NewTime(now.Add(-tt.created))
			s, left := orphan(cp, now.Add(-tt.since), now)
			if s.Phase != tt.phase || !strings.HasPrefix(s.Message, tt.message) || left != tt.left ||
				s.Number != tt.before.Number {
				t.Errorf("%s, %q, %s left, want %s, %q, %s", s.Phase, s.Message, left, tt.phase, tt.message, tt.left)
			}
		})
	}
}

// TestStripTenants checks that the cache has nothing that a tenant can make long and the operator does not read.
func TestStripTenants(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<18)
	meta := metav1.ObjectMeta{
		Name: "a", Namespace: "b", UID: "c", Annotations: map[string]string{"a": long},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: long}},
	}
	purge := &v1alpha1.CachePurge{ObjectMeta: meta, Spec: v1alpha1.CachePurgeSpec{
		CacheNode: "edge", URLs: []string{long}, Prefixes: []string{long}, Hosts: []string{long}, Tags: []string{long},
		TTLSecondsAfterFinished: new(int32(7)),
	}}
	purge.Labels, purge.Finalizers = map[string]string{"a": long}, []string{long}
	purge.OwnerReferences = []metav1.OwnerReference{{Name: long}}
	purge.Status = v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeFailed, Message: long, Number: 7}
	purge.Status.Pods = []v1alpha1.PurgePodStatus{{Message: long}}
	cacheNode := &v1alpha1.CacheNode{ObjectMeta: *meta.DeepCopy()}
	cacheNode.Annotations["drain.cachenode.io/edge-0.disk1"] = "true"
	cacheNode.Annotations[v1alpha1.AnnotationRestart] = "1"
	bare := metav1.ObjectMeta{Name: "a", Namespace: "b", UID: "c"}
	annotated := *bare.DeepCopy()
	annotated.Annotations = map[string]string{
		"drain.cachenode.io/edge-0.disk1": "true", v1alpha1.AnnotationRestart: "1",
	}
	journal := &corev1.ConfigMap{ObjectMeta: *bare.DeepCopy()}
	journal.BinaryData = map[string][]byte{naming.PurgesKey: []byte(long)}
	for name, tt := range map[string]struct{ object, want client.Object }{
		"a purge": {purge, &v1alpha1.CachePurge{
			ObjectMeta: bare,
			Spec:       v1alpha1.CachePurgeSpec{CacheNode: "edge", TTLSecondsAfterFinished: new(int32(7))},
			Status:     v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeFailed, Number: 7},
		}},
		"a CacheNode": {cacheNode, &v1alpha1.CacheNode{ObjectMeta: annotated}},
		"a journal":   {journal, &corev1.ConfigMap{ObjectMeta: bare}},
	} {
		got, err := stripTenants(tt.object)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v (-want +got)\n%.2000s", name, err, diff)
		}
	}
}

// TestOrphans checks that purges of a CacheNode that does not exist fail after an hour and are deleted after a day.
// They are carried out if the CacheNode comes, and the operator has no spec in its cache meanwhile.
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
		o.clock.Step(missingPatience + time.Minute)
		second := create("second", "none") // has the operator look again
		o.reaches(v1alpha1.PurgeFailed, "there was no CacheNode none in namespace default for an hour", first, second)
	})
	steps.Run(t, "after a day", func() {
		o.clock.Step(missingTTL)
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
