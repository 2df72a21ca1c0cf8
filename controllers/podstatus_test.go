package controllers

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/rollout"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

// TestHostileReport: whatever an agent says, the API server takes the status that is made of it.
func TestHostileReport(t *testing.T) {
	long := strings.Repeat("\x1b[31mü", 50_000)
	disks := []agentapi.DiskReport{
		{Name: "disk1", Status: "Failed", Reason: long, Message: long, Share: 1 << 40, ForeignOwner: long, FileSystem: &agentapi.FileSystem{Type: long, Options: long, BlockSize: -1}},
		{Name: "disk1", Status: "Healthy"},
		{Name: "disk2", Status: long},
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
			s := &scope{
				node: cacheNode.DeepCopy(), now: now, pods: []corev1.Pod{pod},
				observations: map[string]Observation{"edge-0": {Report: report, Answered: now}},
			}
			if report.Refusal != nil {
				s.decision = &rollout.Decision{State: rollout.State{Refused: &rollout.Refusal{
					Revision: report.Refusal.Revision, Pod: pod.Name, Message: report.Refusal.Message, Retry: report.Refusal.Retry,
				}}}
			}
			setStatus(s)
			text, err := yaml.Marshal(s.node)
			must(t, err)
			if _, errs, err := schema.Decode(text); err != nil || len(errs) > 0 {
				t.Errorf("the status is refused: %v %v", err, errs)
			}
			if text, err := json.Marshal(s.node.Status); err != nil || len(text) > 16<<10 || strings.Contains(string(text), `\u001b`) {
				t.Errorf("the status has %d bytes (%v)", len(text), err)
			}
			if len(s.node.Status.Pods) != 1 || (len(r.Disks) > 0 && (len(s.node.Status.Pods[0].Disks) != 1 || s.node.Status.Pods[0].Disks[0].State != "Failed")) {
				t.Errorf("the status tells of %+v", s.node.Status.Pods)
			}
		})
	}
}
