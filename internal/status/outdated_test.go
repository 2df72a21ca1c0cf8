package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

func TestAge(t *testing.T) {
	t.Parallel()
	const now, secure, operator = agentapi.Renderer, agentapi.SecureRenderer, "0.4.0"
	for name, tt := range map[string]struct {
		report *agentapi.Report
		want   age
	}{
		"no report":                     {nil, age{}},
		"as new as the operator":        {&agentapi.Report{Renderer: now, NginxVersion: agentapi.MinNginx}, age{}},
		"newer than the operator":       {&agentapi.Report{Renderer: now + 1, NginxVersion: "1.32.0"}, age{}},
		"from before the number":        {&agentapi.Report{}, age{agent: true, unsafe: true}},
		"from before the last fix":      {&agentapi.Report{Renderer: secure - 1}, age{agent: true, unsafe: true}},
		"an old nginx":                  {&agentapi.Report{Renderer: now, NginxVersion: "1.28.0"}, age{nginx: "1.28.0"}},
		"nothing known about the nginx": {&agentapi.Report{Renderer: now}, age{}},
		"one minor version behind":      {&agentapi.Report{Renderer: now, AgentVersion: "0.3.0"}, age{}},
		"two minor versions behind":     {&agentapi.Report{Renderer: now, AgentVersion: "0.2.0"}, age{skewed: "0.2.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ageOf(tt.report, operator); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestOutdated checks the condition, the number of outdated pods, and the text about each pod.
func TestOutdated(t *testing.T) {
	t.Parallel()
	current := agentapi.Report{Renderer: agentapi.Renderer, NginxVersion: "1.30.6"}
	unsafe := agentapi.Report{NginxVersion: "1.30.6"}
	nginx := agentapi.Report{Renderer: agentapi.Renderer, NginxVersion: "1.28.0"}
	skewed := agentapi.Report{Renderer: agentapi.Renderer, AgentVersion: "0.2.5"}
	both := agentapi.Report{NginxVersion: "1.28.0"}
	for name, tt := range map[string]struct {
		reports []*agentapi.Report
		reason  string
		count   int32
		says    []string // parts of the message
		pods    []string // status.pods[].outdated
	}{
		"no pods": {nil, v1alpha1.ReasonAsExpected, 0, []string{"every pod"}, nil},
		"all are recent": {
			[]*agentapi.Report{&current, &current}, v1alpha1.ReasonAsExpected, 0, []string{"every pod"}, []string{"", ""},
		},
		"the agent of one has not answered": {
			[]*agentapi.Report{&current, nil},
			v1alpha1.ReasonAsExpected, 0,
			[]string{"every pod has a recent agent and a recent nginx, but for those whose agents have not answered: edge-1"},
			[]string{"", ""},
		},
		"one lacks a fix": {
			[]*agentapi.Report{&current, &unsafe},
			v1alpha1.ReasonSecurityFix, 1,
			[]string{"lack a security fix: edge-1; ", v1alpha1.AnnotationRestart},
			[]string{"", "the agent lacks a security fix"},
		},
		"one has an old nginx": {
			[]*agentapi.Report{&nginx, &current},
			v1alpha1.ReasonNginxTooOld, 1,
			[]string{
				"edge-0 (1.28.0); to replace the pods one by one, ", v1alpha1.AnnotationRestart, "they get nginx:1.30.6; ",
			},
			[]string{"nginx is 1.28.0, and older than 1.30.4", ""},
		},
		"one is too far from the operator's version": {
			[]*agentapi.Report{&current, &skewed},
			v1alpha1.ReasonVersionSkew, 1,
			[]string{"from the operator (0.4.0), ", "edge-1 (0.2.5); ", v1alpha1.AnnotationRestart},
			[]string{"", "the agent is 0.2.5, too far from the operator's version"},
		},
		"one has both, and one an old nginx": {
			[]*agentapi.Report{&both, &nginx},
			v1alpha1.ReasonSecurityFix, 2,
			[]string{"lack a security fix: edge-0; ", "edge-0 (1.28.0), edge-1 (1.28.0)"},
			[]string{
				"the agent lacks a security fix; nginx is 1.28.0, and older than 1.30.4",
				"nginx is 1.28.0, and older than 1.30.4",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := Facts{
				CacheNode: &v1alpha1.CacheNode{}, Now: time.Unix(1_800_000_000, 0),
				Version: "0.4.0", NginxImage: "nginx:1.30.6",
			}
			for i, report := range tt.reports {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-" + string(rune('0'+i))}}
				f.Pods = append(f.Pods, Pod{Pod: pod, Report: report})
			}
			got := Of(f)
			c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionOutdated)
			if c == nil || c.Reason != tt.reason || (c.Status == metav1.ConditionTrue) != (tt.count > 0) {
				t.Fatalf("the condition is %+v, want the reason %s", c, tt.reason)
			}
			for _, part := range tt.says {
				if !strings.Contains(c.Message, part) {
					t.Errorf("%q lacks %q", c.Message, part)
				}
			}
			var pods []string
			for _, p := range got.Pods {
				pods = append(pods, p.Outdated)
			}
			if diff := cmp.Diff(tt.pods, pods); diff != "" || got.OutdatedPods != tt.count {
				t.Errorf("%d pods are outdated, want %d (-want +got)\n%s", got.OutdatedPods, tt.count, diff)
			}
		})
	}
}

// TestOutdatedStays checks that an operator that has just started keeps the condition until the agents have answered.
func TestOutdatedStays(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}
	f := Facts{CacheNode: &v1alpha1.CacheNode{}, Pods: []Pod{{Pod: pod, Report: &agentapi.Report{NginxVersion: "1.28.0"}}}}
	f.CacheNode.Status = Of(f)
	ready := pod.DeepCopy()
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	f.Pods, f.Began = []Pod{{Pod: ready}}, time.Unix(1_800_000_000, 0)
	after := Of(f)
	if diff := cmp.Diff(f.CacheNode.Status.Pods, after.Pods); diff != "" || after.OutdatedPods != 1 {
		t.Errorf("%d pods are outdated (-before +after)\n%s", after.OutdatedPods, diff)
	}
	c := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionOutdated)
	if c == nil || c.Reason != v1alpha1.ReasonSecurityFix {
		t.Errorf("the condition is %+v", c)
	}
}

// TestOutdatedAndNotAccepted checks that the message of the condition says that no pod is replaced until the spec is
// accepted.
func TestOutdatedAndNotAccepted(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}
	f := Facts{CacheNode: &v1alpha1.CacheNode{}, Pods: []Pod{{Pod: pod, Report: &agentapi.Report{}}}}
	const waits = "until then, no pod is replaced"
	for problem, want := range map[*Problem]bool{
		nil: false, {Reason: v1alpha1.ReasonInvalidSpec}: true, {Accepted: true}: false,
	} {
		f.Problem = problem
		c := meta.FindStatusCondition(Of(f).Conditions, v1alpha1.ConditionOutdated)
		if c == nil || c.Reason != v1alpha1.ReasonSecurityFix || strings.Contains(c.Message, waits) != want {
			t.Errorf("with %+v, the condition is %+v", problem, c)
		}
	}
}

// TestOutdatedImage checks the advice for a CacheNode that names its own, old nginx image. The message asks for a newer
// image and not for a restart, because a restart would use the same image.
func TestOutdatedImage(t *testing.T) {
	t.Parallel()
	report := &agentapi.Report{AgentVersion: "1", Renderer: agentapi.Renderer, NginxVersion: "1.28.0"}
	f := Facts{
		CacheNode: &v1alpha1.CacheNode{},
		Pods:      []Pod{{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}, Report: report}},
	}
	f.CacheNode.Spec.Pod.Image = "nginx:1.28.0"
	const want = "edge-0 (1.28.0); name a newer image in spec.pod.image"
	if c := meta.FindStatusCondition(Of(f).Conditions, v1alpha1.ConditionOutdated); c == nil ||
		!strings.Contains(c.Message, want) {
		t.Errorf("the condition is %+v", c)
	}
}

// TestOutdatedUntilGone checks that the condition is not cleared while the last pod that may be old still terminates.
func TestOutdatedUntilGone(t *testing.T) {
	t.Parallel()
	pod := func(name string, deleted *metav1.Time, report *agentapi.Report) Pod {
		meta := metav1.ObjectMeta{Name: name, DeletionTimestamp: deleted}
		return Pod{Pod: &corev1.Pod{ObjectMeta: meta}, Report: report}
	}
	now := metav1.Now()
	old, current := &agentapi.Report{NginxVersion: "1.30.6"}, &agentapi.Report{Renderer: agentapi.Renderer}
	f := Facts{CacheNode: &v1alpha1.CacheNode{}}
	for _, step := range []struct {
		name    string
		pods    []Pod
		reason  string
		message string
	}{
		{
			"one is old",
			[]Pod{pod("edge-0", nil, old), pod("edge-1", nil, current)},
			v1alpha1.ReasonSecurityFix, "edge-0; ",
		},
		{
			"it terminates",
			[]Pod{pod("edge-0", &now, nil), pod("edge-1", nil, current)},
			v1alpha1.ReasonSecurityFix, "edge-0",
		},
		{"it is gone", []Pod{pod("edge-1", nil, current)}, v1alpha1.ReasonAsExpected, "every pod"},
		{
			"a new one terminates",
			[]Pod{pod("edge-0", nil, current), pod("edge-1", &now, nil)},
			v1alpha1.ReasonAsExpected, "every pod",
		},
	} {
		f.Pods = step.pods
		f.CacheNode.Status = Of(f)
		c := meta.FindStatusCondition(f.CacheNode.Status.Conditions, v1alpha1.ConditionOutdated)
		if c == nil || c.Reason != step.reason || !strings.Contains(c.Message, step.message) ||
			(c.Status == metav1.ConditionTrue) != (step.reason != v1alpha1.ReasonAsExpected) {
			t.Errorf("%s: the condition is %+v, want the reason %s and %q", step.name, c, step.reason, step.message)
		}
	}
}
