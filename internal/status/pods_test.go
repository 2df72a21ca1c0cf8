package status

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// TestHostileReport checks that the API server accepts the status, even if an agent reports extreme values.
func TestHostileReport(t *testing.T) {
	long := strings.Repeat("\x1b[31mü", 50_000)
	disks := []agentapi.DiskReport{
		{
			Name: "disk1", State: "Failed", Reason: v1alpha1.DiskReason(long), Message: long, Share: 1 << 40,
			ForeignOwner: long, FileSystem: &effective.FileSystem{Type: long, Options: long, BlockSize: -1},
		},
		{Name: "disk1", State: "Healthy"},
		{Name: "disk2", State: v1alpha1.DiskState(long)},
	}
	cacheNode, errs, err := schema.Decode([]byte("apiVersion: cachenode.io/v1alpha1\nkind: CacheNode\n" +
		"metadata: {name: edge, namespace: default}\n" +
		"spec: {disks: [{name: disk1, size: 1Gi}, {name: disk2, size: 1Gi}], " +
		"origin: {servers: [{host: a.example.com}]}}"))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	now := time.Unix(1_800_000_000, 0)
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
			text, err = json.Marshal(f.CacheNode.Status)
			if err != nil || len(text) > 16<<10 || strings.Contains(string(text), `\u001b`) {
				t.Errorf("the status has %d bytes (%v)", len(text), err)
			}
			pods := f.CacheNode.Status.Pods
			if len(pods) != 1 || (len(r.Disks) > 0 && (len(pods[0].Disks) != 1 || pods[0].Disks[0].State != "Failed")) {
				t.Errorf("the status tells of %+v", pods)
			}
		})
	}
}

// TestAnAgentThatHasNotAnswered checks an operator that has just started. Until the agent of a pod has answered, the
// operator keeps the previous status of the pod's disks.
func TestAnAgentThatHasNotAnswered(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}
	before := v1alpha1.CacheNodeStatus{Pods: []v1alpha1.PodStatus{{
		Name: "edge-0", Revision: "abc", Disks: []v1alpha1.PodDiskStatus{{Name: "disk1", State: "Failed", Reason: "IOError"}},
	}}}
	f := Facts{CacheNode: &v1alpha1.CacheNode{Status: before}, Pods: []Pod{{Pod: pod}}, Began: time.Unix(1_800_000_000, 0)}
	f.CacheNode.Name, f.CacheNode.Spec.Disks = "edge", []v1alpha1.Disk{{Name: "disk1"}}
	after := Of(f)
	if diff := cmp.Diff(before.Pods, after.Pods); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	events, broken := Events(f, after)
	for _, e := range events {
		if e.Reason == "DiskHealthy" {
			t.Errorf("the event %+v", e)
		}
	}
	f.Pods[0].Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "edge-0", CreationTimestamp: metav1.NewTime(f.Began.Add(time.Second)),
	}}
	if status := Of(f).Pods[0]; len(status.Disks) > 0 || status.Revision != "" {
		t.Errorf("a pod that is younger than the operator has the status of the one before it: %+v", status)
	}
	// There is one event, when an agent reports the disk as healthy, even if the disk had other states in between.
	for _, step := range []struct {
		state v1alpha1.DiskState
		want  bool
	}{
		{v1alpha1.DiskStarting, false},
		{v1alpha1.DiskDrained, false},
		{v1alpha1.DiskHealthy, true},
		{v1alpha1.DiskHealthy, false},
	} {
		f.CacheNode.Status, f.Broken = after, broken
		f.Pods[0].Report = &agentapi.Report{Disks: []agentapi.DiskReport{{Name: "disk1", State: step.state}}}
		after = Of(f)
		events, broken = Events(f, after)
		healthy := slices.ContainsFunc(events, func(e Event) bool { return e.Reason == "DiskHealthy" })
		if healthy != step.want {
			t.Errorf("%s: the event DiskHealthy came: %t; all events: %+v", step.state, healthy, events)
		}
	}
}

// TestABrokenDiskThatLeavesTheSpec checks that no event calls a broken disk healthy after its removal from the spec.
func TestABrokenDiskThatLeavesTheSpec(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}
	f := Facts{CacheNode: &v1alpha1.CacheNode{}, Pods: []Pod{{Pod: pod}}}
	f.CacheNode.Name = "edge"
	f.CacheNode.Status.Pods = []v1alpha1.PodStatus{{
		Name: "edge-0", Disks: []v1alpha1.PodDiskStatus{{Name: "disk1", State: "Failed", Reason: "IOError"}},
	}}
	f.Pods[0].Report = &agentapi.Report{}
	events, broken := Events(f, Of(f))
	healthy := slices.ContainsFunc(events, func(e Event) bool { return e.Reason == "DiskHealthy" })
	if healthy || len(broken) > 0 {
		t.Errorf("the events are %+v, the broken disks %v", events, broken)
	}
}

// TestDisksOfARefusedSpec checks that the status counts healthy disks even while the spec is not accepted.
func TestDisksOfARefusedSpec(t *testing.T) {
	f := Facts{CacheNode: &v1alpha1.CacheNode{}, Problem: &Problem{Reason: v1alpha1.ReasonInvalidSpec}}
	f.CacheNode.Status.Disks = []v1alpha1.DiskStatus{{Name: "disk1", Share: "100.00%", Healthy: 1, Total: 1}}
	failed := []agentapi.DiskReport{{Name: "disk1", State: v1alpha1.DiskFailed}}
	f.Pods = []Pod{{Pod: &corev1.Pod{}, Report: &agentapi.Report{Disks: failed}}}
	want := []v1alpha1.DiskStatus{{Name: "disk1", Share: "100.00%", Total: 1}}
	if diff := cmp.Diff(want, Of(f).Disks); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestWhatIsThereCounts checks that the number of healthy disks and their total size come from the pods and not from
// the spec.
func TestWhatIsThereCounts(t *testing.T) {
	f := Facts{CacheNode: &v1alpha1.CacheNode{}}
	f.CacheNode.Spec.Replicas = new(int32(2))
	f.CacheNode.Spec.Disks = []v1alpha1.Disk{
		{Name: "disk1", Size: resource.MustParse("1Ti")}, {Name: "disk2", Size: resource.MustParse("1Gi")},
	}
	f.Config = &Config{Plan: shard.NewPlan([]shard.Member{{Name: "disk1", Weight: 1}, {Name: "disk2", Weight: 1}})}
	if s := Of(f); s.HealthyDisks != "0/4" || s.Size != "0" {
		t.Errorf("before any agent has answered: %s disks, %s", s.HealthyDisks, s.Size)
	}
	report := func(disks ...agentapi.DiskReport) *agentapi.Report { return &agentapi.Report{Disks: disks} }
	f.Pods = []Pod{
		{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}, Report: report(
			agentapi.DiskReport{Name: "disk1", State: v1alpha1.DiskHealthy, Size: 1 << 30, Share: 5000},
			agentapi.DiskReport{Name: "disk2", State: v1alpha1.DiskFailed, Size: 1 << 30})},
		{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}}, Report: report(
			agentapi.DiskReport{Name: "disk2", State: v1alpha1.DiskHealthy, Size: 1 << 30, Share: 5000})},
	}
	s := Of(f)
	if s.HealthyDisks != "2/4" || s.Size != "2Gi" {
		t.Errorf("%s disks, %s; want 2/4 and what the agents measured of disks in use", s.HealthyDisks, s.Size)
	}
	const small = "spec.disks[0].size: disk1 is 1Ti, and the file system has 1Gi in 1 pods"
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAccepted)
	if !strings.Contains(c.Message, small) {
		t.Errorf("Accepted says %q", c.Message)
	}
	disks := s.Pods[1].Disks
	if len(disks) != 1 || disks[0].Name != "disk1" || disks[0].State != string(v1alpha1.DiskStarting) {
		t.Errorf("of edge-1, which does not have disk1 yet, the status lists %+v", disks)
	}
}

// TestMissingReferencesAreNamed checks that Degraded names the objects that do not exist, after the problems that are
// worse.
func TestMissingReferencesAreNamed(t *testing.T) {
	f := Facts{
		CacheNode: &v1alpha1.CacheNode{}, StatefulSet: statefulSet(1, 1, 1, 1, 1, 1),
		Rollout: &Rollout{Done: true, Settled: true}, Unmet: []string{"no such Service"},
	}
	c := meta.FindStatusCondition(Of(f).Conditions, v1alpha1.ConditionDegraded)
	if c.Reason != v1alpha1.ReasonReferenceMissing || c.Message != "no such Service" {
		t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
	}
	f.Lost = "a node"
	c = meta.FindStatusCondition(Of(f).Conditions, v1alpha1.ConditionDegraded)
	if c.Reason != v1alpha1.ReasonNodeLost || c.Message != "a node; no such Service" {
		t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
	}
}

// TestEventsOfManyDisks checks that, if several disks fail at once, their events differ in pod or action. Otherwise,
// Kubernetes would merge these events into one.
func TestEventsOfManyDisks(t *testing.T) {
	var after []v1alpha1.PodStatus
	for _, pod := range []string{"edge-0", "edge-1", "edge-2"} {
		failed := []v1alpha1.PodDiskStatus{{Name: "disk1", State: "Failed"}, {Name: "disk2", State: "Failed"}}
		after = append(after, v1alpha1.PodStatus{Name: pod, Disks: failed})
	}
	seen := map[string]bool{}
	events, _ := Events(Facts{CacheNode: &v1alpha1.CacheNode{}}, v1alpha1.CacheNodeStatus{Pods: after})
	for _, e := range events {
		seen[e.Reason+" "+e.Action+" "+e.Pod] = true
	}
	if len(seen) != 6 {
		t.Errorf("six disks fail, and the events are %v", seen)
	}
}

// TestFewFiles checks that status.tuning names the pod with the lowest limit on open files, if this limit lowers
// listen.maxConnections.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	pods := func(limits ...int64) (pods []Pod) {
		for i, limit := range limits {
			p := Pod{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-" + strconv.Itoa(i)}}}
			if limit >= 0 {
				p.Report = &agentapi.Report{OpenFiles: limit}
			}
			pods = append(pods, p)
		}
		return pods
	}
	for name, tt := range map[string]struct {
		pods []Pod
		want string
	}{
		"enough":                      {pods(1<<20, 65536), ""},
		"no answer, and an old agent": {pods(-1, 0), ""},
		"the lowest, and the first":   {pods(0, -1, 1<<20, 4096, 4096), "edge-3 may have 4096 files open"},
		"the lowest is not the first": {pods(8192, 4096), "edge-1 may have 4096 files open"},
		"no pod":                      {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := v1alpha1.CacheNodeSpec{}
			spec.Listen.MaxConnections = new(int32(16384))
			got := strings.Join(Facts{Pods: tt.pods}.FewFiles(spec), "\n")
			if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("got %q, want it to have %q", got, tt.want)
			}
		})
	}
}
