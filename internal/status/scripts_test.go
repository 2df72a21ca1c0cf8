package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// TestWithoutScripts checks that status.tuning names the pods in which hit-for-miss is off.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	lacks, has := &agentapi.Report{Features: []string{agentapi.FeatureNoScripts}}, &agentapi.Report{}
	said := func(pods string) []string {
		return []string{"requests for what may not be stored wait for each other (no hit-for-miss), because nginx lacks " +
			"ngx_http_js_module: an image of nginx whose name does not end in -slim has it; pods: " + pods}
	}
	for name, tt := range map[string]struct {
		reports []*agentapi.Report
		locks   *bool
		want    []string
	}{
		"no pods":                 {},
		"all have it":             {[]*agentapi.Report{has, has}, nil, nil},
		"no report":               {[]*agentapi.Report{nil}, nil, nil},
		"without a lock":          {[]*agentapi.Report{lacks}, new(false), nil},
		"two lack it, one has it": {[]*agentapi.Report{lacks, has, lacks}, nil, said("edge-0, edge-2")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Facts{CacheNode: &v1alpha1.CacheNode{}}
			f.CacheNode.Spec.Cache.Lock.Enabled = tt.locks
			for i, report := range tt.reports {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-" + string(rune('0'+i))}}
				f.Pods = append(f.Pods, Pod{Pod: pod, Report: report})
			}
			if diff := cmp.Diff(tt.want, f.withoutScripts()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
