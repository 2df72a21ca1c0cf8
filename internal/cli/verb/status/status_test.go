package status

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
)

func TestWrite(t *testing.T) {
	cacheNode := &v1alpha1.CacheNode{Status: v1alpha1.CacheNodeStatus{
		Disks: []v1alpha1.DiskStatus{{Name: "disk1", Share: "50.00%"}, {Name: "disk2", Share: "50.00%"}},
		Pods: []v1alpha1.PodStatus{
			{Name: "edge-0", Node: "node-1", Revision: "abc", Disks: []v1alpha1.PodDiskStatus{
				{Name: "disk1", State: "Healthy", Share: "50.00%", Message: "disk1 of edge-0 cannot be mounted"},
			}},
			{Name: "edge-1", Node: "node-2", Revision: "abc", Disks: []v1alpha1.PodDiskStatus{
				{Name: "disk1", State: "Healthy", Share: "100.00%"},
				{
					Name: "disk2", State: "Failed", Reason: "IOError", Share: "0.00%",
					Message: "read: input/output\x1b[2J\u009b\n error",
				},
			}},
			{Name: "edge-2", Message: "the agent does not answer"},
		},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: "True", Reason: "Ready", Message: "3 of 3"},
			{
				Type: v1alpha1.ConditionAccepted, Status: "True", Reason: "Accepted",
				Message: "the spec is valid; disk1 is small; disk2 too",
			},
			{
				Type: v1alpha1.ConditionDegraded, Status: "True", Reason: "DiskFailed",
				Message: "edge-1: disk2; disk1 of edge-0 cannot be mounted",
			},
			{Type: v1alpha1.ConditionEvictionsWait, Status: "True", Reason: "HandingOver", Message: "budget edge"},
		},
	}}
	numbers := map[string]podmetrics.Pod{"edge-0": {Disks: map[string]podmetrics.Disk{
		"disk1": {Size: 2 << 30, UsedBytes: 1 << 30, Hits: 30, Requests: 40, Sampling: .01},
		"disk2": {Size: 2 << 30, UsedBytes: 1 << 30, Hits: 1, Requests: 1, Sampling: .01},
	}}}
	cacheNode.Generation, cacheNode.Status.ObservedGeneration = 3, 2
	cacheNode.Status.ListenerCertificate = &v1alpha1.CertificateStatus{NotAfter: metav1.Unix(1800000000, 0)}
	write := func(out io.Writer, cacheNode *v1alpha1.CacheNode, numbers map[string]podmetrics.Pod, form string) error {
		return inForm(form).write(out, cacheNode, numbers)
	}
	var out strings.Builder
	if err := write(&out, cacheNode, numbers, ""); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
No operator has looked at the present spec yet: what follows is about an earlier one
Ready=True (Ready): 3 of 3
Warning: disk1 is small; disk2 too
Degraded=True (DiskFailed): edge-1: disk2; disk1 of edge-0 cannot be mounted
EvictionsWait=True (HandingOver): budget edge
The certificate of listen.tls is valid until 2027-01-15T08:00:00Z
POD      NODE     REVISION   DISK    STATE              SHARE     USED             HIT RATIO
edge-0   node-1   abc        disk1   Healthy            50.00%    50% of 2.0 GiB   75.0%
edge-0   node-1   abc        disk2   Healthy            50.00%    50% of 2.0 GiB   too few
edge-1   node-2   abc        disk1   Healthy            100.00%   -                -
edge-1   node-2   abc        disk2   Failed (IOError)   0.00%     -                -
edge-2   -        -          disk1   -                  -         -                -
edge-2   -        -          disk2   -                  -         -                -
edge-1, disk2: read: input/output[2J  error
edge-2: the agent does not answer
`, "\n")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	out.Reset()
	if err := inForm("json").write(&out, cacheNode, numbers); err != nil {
		t.Fatal(err)
	}
	var told summary
	if err := json.Unmarshal([]byte(out.String()), &told); err != nil {
		t.Fatal(err)
	}
	wantDisk := disk{Name: "disk2", State: "Failed (IOError)", Share: "0.00%", Message: "read: input/output[2J  error"}
	if diff := cmp.Diff(wantDisk, told.Pods[1].Disks[1]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if d := told.Pods[0].Disks[1]; d.HitRatio != nil || told.Generation != 3 || told.ObservedGeneration != 2 {
		t.Errorf("a ratio of one sampled request, and generations: %+v, %+v", d, told)
	}
	if d := told.Pods[0].Disks[0]; d.HitRatio == nil || *d.HitRatio != 0.75 || d.UsedBytes != 1<<30 {
		t.Errorf("numbers: %+v", d)
	}
	out.Reset()
	err := inForm("wide").write(&out, cacheNode, numbers)
	if err != nil || !strings.Contains(out.String(), "REQUESTS   OVERFLOWS   FILE SYSTEM") {
		t.Errorf("error %v, wide:\n%s", err, out.String())
	}
}

// inForm returns the options with the given output format.
func inForm(form string) options { return options{output: &output.Flag{Value: form}} }

// TestRoutingForPrograms checks that the JSON output says how the pods share keys.
func TestRoutingForPrograms(t *testing.T) {
	t.Parallel()
	cacheNode := &v1alpha1.CacheNode{Status: v1alpha1.CacheNodeStatus{
		Routing: &v1alpha1.RoutingStatus{Owners: 2, Applied: "2/2"},
		Pods:    []v1alpha1.PodStatus{{Name: "edge-0", Share: "50.01%"}, {Name: "edge-1", Share: "49.99%"}},
	}}
	var out bytes.Buffer
	if err := inForm("json").write(&out, cacheNode, nil); err != nil {
		t.Fatal(err)
	}
	var told summary
	if err := json.Unmarshal(out.Bytes(), &told); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cacheNode.Status.Routing, told.Routing); diff != "" || told.Pods[1].Share != "49.99%" {
		t.Errorf("%s\n%s", &out, diff)
	}
}

// TestOutdated checks that the table and the JSON output name the pods with an agent or an nginx that is too old.
func TestOutdated(t *testing.T) {
	t.Parallel()
	cacheNode := &v1alpha1.CacheNode{Status: v1alpha1.CacheNodeStatus{
		OutdatedPods: 1,
		Pods: []v1alpha1.PodStatus{
			{Name: "edge-0", NginxVersion: "1.30.6"},
			{Name: "edge-1", NginxVersion: "1.28.0", Outdated: "nginx is 1.28.0"},
		},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionOutdated, Status: "True", Reason: v1alpha1.ReasonNginxTooOld, Message: "edge-1 (1.28.0)",
		}},
	}}
	var out bytes.Buffer
	if err := inForm("").write(&out, cacheNode, nil); err != nil {
		t.Fatal(err)
	}
	const line = "Outdated=True (NginxTooOld): 1 of 2 pods: edge-1 (1.28.0)\n"
	if !strings.Contains(out.String(), line) {
		t.Errorf("%s\nlacks %s", &out, line)
	}
	out.Reset()
	if err := inForm("json").write(&out, cacheNode, nil); err != nil {
		t.Fatal(err)
	}
	var told summary
	if err := json.Unmarshal(out.Bytes(), &told); err != nil {
		t.Fatal(err)
	}
	if told.OutdatedPods != 1 || told.Pods[1].Outdated != "nginx is 1.28.0" || told.Pods[0].NginxVersion != "1.30.6" {
		t.Errorf("%+v", told)
	}
	out.Reset()
	cacheNode.Status.OutdatedPods = 0 // the last old pod terminates
	const last = "Outdated=True (NginxTooOld): edge-1 (1.28.0)\n"
	if err := inForm("").write(&out, cacheNode, nil); err != nil || !strings.Contains(out.String(), last) {
		t.Errorf("error %v, and %s\nlacks %s", err, &out, last)
	}
	out.Reset()
	cacheNode.Status.Conditions[0].Status = "False"
	if err := inForm("").write(&out, cacheNode, nil); err != nil || strings.Contains(out.String(), "Outdated") {
		t.Errorf("error %v, and without old pods: %s", err, &out)
	}
}

func TestSharing(t *testing.T) {
	t.Parallel()
	until := metav1.Unix(1800000000, 0)
	for want, r := range map[string]v1alpha1.RoutingStatus{
		"2 pods share the keys; 1/2 pods know it": {Owners: 2, Applied: "1/2"},
		"1 pod has all keys; 2/2 pods know it; keys that have moved are filled from their previous owners " +
			"until 2027-01-15T08:00:00Z": {Owners: 1, Applied: "2/2", HandoverUntil: &until},
	} {
		if got := sharing(r); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
