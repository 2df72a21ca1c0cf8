package status

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// troubled returns a CacheNode that has every problem that Degraded can report.
func troubled(now time.Time) *conditionList {
	cacheNode := &v1alpha1.CacheNode{}
	cacheNode.Spec.Listen.TLS = &v1alpha1.ListenTLS{SecretName: "listener"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "edge-0"}}
	pod.Annotations = map[string]string{naming.AnnotationPeers: "1"}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return &conditionList{Facts: Facts{
		CacheNode: cacheNode, Now: now, Failure: errors.New("forbidden"), Lost: "edge-0 waits",
		Rollout:     &Rollout{Refused: &agentapi.Refusal{Pod: "edge-0"}},
		Certificate: CertificateOf(now.Add(-time.Hour), now), TooManyVolumes: "9 of 8",
		Missing: []storage.Missing{{PodDisk: storage.PodDisk{Pod: "edge-0", Disk: "disk2"}}}, Unmet: []string{"a Service"},
		Sharing: &fleet.Decision{},
		Pods: []Pod{{Pod: pod, Silent: true, Report: &agentapi.Report{
			Lowered: "a limit", Disks: []agentapi.DiskReport{{Name: "disk1", State: v1alpha1.DiskFailed}},
		}}},
	}}
}

// TestDegradedAsDocumented checks that Degraded reports the worst problem first, in the order of
// docs/reference/conditions.md. It also checks that the runbook describes what to do for each reason.
func TestDegradedAsDocumented(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	l, stuck := troubled(now), true
	report := l.Pods[0].Report
	expires := func(from, to time.Duration) func() {
		return func() { l.Certificate = CertificateOf(now.Add(from), now.Add(to)) }
	}
	mend := map[string]func(){
		v1alpha1.ReasonApplyFailed:        func() { l.Failure = nil },
		v1alpha1.ReasonNodeLost:           func() { l.Lost = "" },
		v1alpha1.ReasonConfigRefused:      func() { l.Rollout.Refused = nil },
		v1alpha1.ReasonCertificateExpired: expires(-time.Hour, time.Minute),
		v1alpha1.ReasonTooManyVolumes:     func() { l.TooManyVolumes = "" },
		v1alpha1.ReasonPodsNotReady:       func() { stuck = false },
		v1alpha1.ReasonDiskMissing:        func() { l.Missing = nil },
		v1alpha1.ReasonDiskFailed:         func() { report.Disks = nil },
		v1alpha1.ReasonReferenceMissing:   func() { l.Unmet = nil },
		v1alpha1.ReasonLimitsLowered:      func() { report.Lowered = "" },
		v1alpha1.ReasonAgentTooOld:        func() { report.Features = []string{agentapi.FeatureRouting} },
		v1alpha1.ReasonAgentUnreachable:   func() { l.Pods[0].Silent = false },
		v1alpha1.ReasonCertificateExpires: expires(0, time.Hour),
	}
	var reasons []string
	for range len(mend) + 1 {
		l.items = nil
		l.degraded(stuck, "edge-0 does not start")
		reason := l.items[0].Reason
		if reason == v1alpha1.ReasonAsExpected {
			break
		}
		reasons = append(reasons, reason)
		if mend[reason] == nil {
			t.Fatalf("the test does not know the reason %s", reason)
		}
		mend[reason]()
	}
	if diff := cmp.Diff(rows(t, "../../docs/reference/conditions.md", "## Degraded"), reasons); diff != "" {
		t.Errorf("the order of docs/reference/conditions.md and that of Degraded (-want +got):\n%s", diff)
	}
	slices.Sort(reasons)
	runbook := rows(t, "../../docs/runbooks/cachenodedegraded.md", "")
	slices.Sort(runbook)
	if diff := cmp.Diff(reasons, runbook); diff != "" {
		t.Errorf("the reasons of Degraded and those of the runbook (-want +got):\n%s", diff)
	}
}

// rows returns the reasons in the first column of the first table of reasons after a heading of a page.
func rows(t *testing.T, file, heading string) (reasons []string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), heading)
	_, table, found := strings.Cut(rest, "| reason |")
	if !ok || !found {
		t.Fatalf("%s has no table of reasons", file)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z][A-Za-z, ]+) \|`).FindAllStringSubmatch(table, -1) {
		reasons = append(reasons, strings.Split(row[1], ", ")...)
	}
	return reasons
}
