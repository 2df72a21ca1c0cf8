package disk

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/storage"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

func TestRun(t *testing.T) {
	now := time.Date(2026, 11, 21, 11, 59, 59, 1, time.UTC) // a nanosecond after the failure, perhaps
	drain := v1alpha1.Drain.Annotation("edge-1", "disk2")
	readmit := v1alpha1.Readmit.Annotation("edge-1", "disk2")
	replace := v1alpha1.Replace.Annotation("edge-1", "disk2")
	tests := map[string]struct {
		verb  v1alpha1.Verb
		pod   string
		disks []string
		want  []string // the annotations afterwards
		err   string
	}{
		"drain":   {v1alpha1.Drain, "edge-1", []string{"disk2"}, []string{drain}, ""},
		"replace": {v1alpha1.Replace, "edge-1", []string{"disk2"}, []string{drain, replace}, ""},
		"readmit": {v1alpha1.Readmit, "edge-1", []string{"disk2"}, []string{readmit}, ""},
		"two disks": {
			v1alpha1.Drain, "edge-1",
			[]string{"disk1", "disk2"},
			[]string{drain, v1alpha1.Drain.Annotation("edge-1", "disk1")},
			"",
		},
		"a disk of no name":   {v1alpha1.Drain, "edge-1", []string{"disk9"}, nil, `has no disk "disk9"`},
		"a pod too many":      {v1alpha1.Drain, "edge-2", []string{"disk2"}, nil, "has 2 pods, and edge-2 is none of them"},
		"a pod of no set":     {v1alpha1.Drain, "edge", []string{"disk2"}, nil, "is no pod of a CacheNode"},
		"a CacheNode of none": {v1alpha1.Drain, "other-1", []string{"disk2"}, nil, "not found"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cacheNode := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{
				Name: "edge", Namespace: "default", Annotations: map[string]string{},
			}}
			cacheNode.Spec.Replicas, cacheNode.Spec.Disks = new(int32(2)), []v1alpha1.Disk{{Name: "disk1"}, {Name: "disk2"}}
			if tt.verb != v1alpha1.Drain {
				cacheNode.Annotations[drain] = "earlier"
			}
			c := fake.NewClientBuilder().WithScheme(apiserver.Scheme(t)).WithObjects(cacheNode).Build()
			cluster := &connect.Cluster{Client: c, Namespace: "default"}
			var out strings.Builder
			err := run(context.Background(), cluster, tt.verb, tt.pod, tt.disks, now, &out)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error is %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || !strings.Contains(out.String(), "cachenode/edge: "+string(tt.verb)) {
				t.Errorf("error %v, it says %q", err, out.String())
			}
			if err := cluster.Get(context.Background(), client.ObjectKeyFromObject(cacheNode), cacheNode); err != nil {
				t.Fatal(err)
			}
			slices.Sort(tt.want)
			if got := slices.Sorted(maps.Keys(cacheNode.Annotations)); !slices.Equal(got, tt.want) {
				t.Errorf("the annotations are %v, want %v", got, tt.want)
			}
			if v := storage.ReadVerbs(cacheNode); len(v.Problems) > 0 {
				t.Errorf("the operator does not understand them: %v", v.Problems)
			}
		})
	}
}
