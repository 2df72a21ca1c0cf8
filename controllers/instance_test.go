package controllers

import (
	"context"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// TestTheIndexFindsWhatTheLabelsSelect checks that the index finds the same objects as the labels. It also checks that
// an event of a scout causes a pass over its CacheNode, although the index does not contain the scout.
func TestTheIndexFindsWhatTheLabelsSelect(t *testing.T) {
	own := naming.PodSelector("edge")
	volume := maps.Clone(own)
	volume[naming.LabelNamespace] = "default"
	scout := maps.Clone(own)
	scout[naming.LabelName] = "another"
	for name, tt := range map[string]struct {
		object   client.Object
		index    []string
		requests int
	}{
		"a pod": {
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: own}},
			[]string{"default/edge"},
			1,
		},
		"a claim elsewhere": {
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Labels: own}},
			[]string{"other/edge"},
			1,
		},
		"a volume": {
			&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: volume}},
			[]string{"default/edge"},
			1,
		},
		"a volume without namespace": {
			&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: own}},
			nil, 0,
		},
		"a scout": {
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: scout}},
			nil, 1,
		},
		"somebody else's": {
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}},
			nil, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.index, indexed(tt.object)); diff != "" {
				t.Errorf("index (-want +got):\n%s", diff)
			}
			if got := toCacheNode(context.Background(), tt.object); len(got) != tt.requests {
				t.Errorf("its events lead to %v, want %d requests", got, tt.requests)
			}
		})
	}
}
