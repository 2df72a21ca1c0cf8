package status

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// TestHostileReport: whatever an agent says, the API server takes the status that is made of it.
func TestHostileReport(t *testing.T) {
	long := strings.Repeat("\x1b[31mü", 50_000)
	disks := []agentapi.DiskReport{
		{Name: "disk1", State: "Failed", Reason: v1alpha1.DiskReason(long), Message: long, Share: 1 << 40, ForeignOwner: long, FileSystem: &tuning.FileSystem{Type: long, Options: long, BlockSize: -1}},
		{Name: "disk1", State: "Healthy"},
		{Name: "disk2", State: v1alpha1.DiskState(long)},
	}
	cacheNode, errs, err := schema.Decode([]byte("apiVersion: cachenode.io/v1alpha1\nkind: CacheNode\nmetadata: {name: edge, namespace: default}\nspec: {disks: [{name: disk1, size: 1Gi}, {name: disk2, size: 1Gi}], origin: {servers: [{host: a.example.com}]}}"))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	now := time.Now()
	for name, r := range map[string]agentapi.Report{
		"texts":    {Revision: long, Problem: long, Disks: disks, Since: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
		"lowered":  {Revision: "0123456789ab", Lowered: long, Disks: disks},
		"refusal":  {Refusal: &agentapi.Refusal{Revision: strings.Repeat("a", 64), Message: long, Retry: long}},
		"no times": {Disks: disks, Since: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			report := agentapi.Sanitize(r, now)
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0", Namespace: "default"}}
			f := Facts{CacheNode: cacheNode.DeepCopy(), Now: now, Pods: []Pod{{Pod: &pod, Report: &report}}}
			if report.Refusal != nil {
				f.Rollout = &Rollout{Refused: &agentapi.Refusal{
					Revision: report.Refusal.Revision, Pod: pod.Name, Message: report.Refusal.Message, Retry: report.Refusal.Retry,
				}}
			}
			f.CacheNode.Status = Of(f)
			text, err := yaml.Marshal(f.CacheNode)
			if err != nil {
				t.Fatal(err)
			}
			if _, errs, err := schema.Decode(text); err != nil || len(errs) > 0 {
				t.Errorf("the status is refused: %v %v", err, errs)
			}
			if text, err := json.Marshal(f.CacheNode.Status); err != nil || len(text) > 16<<10 || strings.Contains(string(text), `\u001b`) {
				t.Errorf("the status has %d bytes (%v)", len(text), err)
			}
			if len(f.CacheNode.Status.Pods) != 1 || (len(r.Disks) > 0 && (len(f.CacheNode.Status.Pods[0].Disks) != 1 || f.CacheNode.Status.Pods[0].Disks[0].State != "Failed")) {
				t.Errorf("the status tells of %+v", f.CacheNode.Status.Pods)
			}
		})
	}
}

// TestAnAgentThatHasNotAnswered: an operator that starts anew knows nothing of a pod's disks and says nothing new of them.
func TestAnAgentThatHasNotAnswered(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}
	before := v1alpha1.CacheNodeStatus{Pods: []v1alpha1.PodStatus{{
		Name: "edge-0", Revision: "abc", Disks: []v1alpha1.PodDiskStatus{{Name: "disk1", State: "Failed", Reason: "IOError"}},
	}}}
	f := Facts{CacheNode: &v1alpha1.CacheNode{Status: before}, Pods: []Pod{{Pod: pod}}}
	after := Of(f)
	if diff := cmp.Diff(before.Pods, after.Pods); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	for _, e := range Events(before, after, false) {
		if e.Reason == "DiskHealthy" {
			t.Errorf("the event %+v", e)
		}
	}
	f.Pods[0].Report = &agentapi.Report{Disks: []agentapi.DiskReport{{Name: "disk1", State: v1alpha1.DiskHealthy}}}
	if events := Events(before, Of(f), false); !slices.ContainsFunc(events, func(e Event) bool { return e.Reason == "DiskHealthy" }) {
		t.Errorf("the agent says that the disk is well, and the events are %+v", events)
	}
}

// TestDisksOfARefusedSpec: which disks are healthy is told also while the spec is not accepted.
func TestDisksOfARefusedSpec(t *testing.T) {
	f := Facts{CacheNode: &v1alpha1.CacheNode{}, Problem: &Problem{Reason: v1alpha1.ReasonInvalidSpec}}
	f.CacheNode.Status.Disks = []v1alpha1.DiskStatus{{Name: "disk1", Share: "100.00%", Healthy: 1, Total: 1}}
	f.Pods = []Pod{{Pod: &corev1.Pod{}, Report: &agentapi.Report{Disks: []agentapi.DiskReport{{Name: "disk1", State: v1alpha1.DiskFailed}}}}}
	want := []v1alpha1.DiskStatus{{Name: "disk1", Share: "100.00%", Total: 1}}
	if diff := cmp.Diff(want, Of(f).Disks); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
