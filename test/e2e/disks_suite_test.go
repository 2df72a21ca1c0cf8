package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/test/await"
)

// plugin runs the kubectl plugin in the tests' namespace.
func plugin(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Getenv("CACHENODE_TEST_PLUGIN"), append(args, "--namespace", namespace)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl cachenode %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// localDisk returns a disk with a localPath, as JSON. The parameter more contains additional fields. It begins with a
// comma unless it is empty.
func localDisk(disk, more string) string {
	return fmt.Sprintf(`{"name":%q,"size":"1Gi","media":"HDD","localPath":{"path":"/mnt/%s"},"health":{"timeout":"1m"}%s}`,
		disk, disk, more)
}

// patience is the factor by which make test-all extends the times for which tests wait. The times in the tests are for
// an idle machine, but the machine's host may take processors away.
const patience = 2

// within waits until f returns "". In make test-all, the test fails if this takes longer than the time most multiplied
// by patience. In make test, it waits at least for the time await.Patience, because the speed does not matter there.
// The failure shows the last result of f. The pauses between the calls of f become longer, because most calls send a
// request to the API server, which shares the machine with everything else.
func within(t *testing.T, most time.Duration, f func() string) {
	t.Helper()
	if most *= patience; !isLong {
		most = max(most, await.Patience)
	}
	begun := time.Now()
	for pause := 50 * time.Millisecond; ; pause = min(pause*5/4, 500*time.Millisecond) {
		problem := f()
		if problem == "" {
			return
		}
		if time.Since(begun) > most {
			list, err := tryKubectl("", "get", "cachenodes,pods,pvc,events", "-o", "wide", "--request-timeout=5s")
			t.Fatalf("after %s: %s\n%s %v", most, problem, list, err) // the API server may be stopped
		}
		time.Sleep(pause)
	}
}

// condition returns the reason and message of a condition that is True, and "" for any other condition.
func (s *suite) condition(t *testing.T, kind string) (reason, message string) {
	t.Helper()
	c := meta.FindStatusCondition(s.cacheNode(t).Status.Conditions, kind)
	if c == nil || c.Status != "True" {
		return "", ""
	}
	return c.Reason, c.Message
}

// says waits until a condition is True for a reason, and returns its message.
func (s *suite) says(t *testing.T, kind, reason string, most time.Duration) (message string) {
	t.Helper()
	within(t, most, func() string {
		got, text := s.condition(t, kind)
		message = text
		if got == reason {
			return ""
		}
		return fmt.Sprintf("%s is for %q (%s), want %s", kind, got, text, reason)
	})
	return message
}

// localVolumes returns the volumes that the operator has created, by node and path.
func (s *suite) localVolumes(t *testing.T) map[string]corev1.PersistentVolume {
	t.Helper()
	list := &corev1.PersistentVolumeList{}
	must(t, s.List(context.Background(), list, client.MatchingLabels{naming.LabelManagedBy: naming.FieldManager}))
	volumes := map[string]corev1.PersistentVolume{}
	for _, v := range list.Items {
		key := v.Annotations[naming.AnnotationNode] + " placeholder"
		if v.Spec.Local != nil {
			key = v.Annotations[naming.AnnotationNode] + " " + v.Spec.Local.Path
		}
		volumes[key] = v
	}
	return volumes
}

// claim returns the claim of a pod for a disk.
func (s *suite) claim(t *testing.T, disk, pod string) corev1.PersistentVolumeClaim {
	t.Helper()
	claim := corev1.PersistentVolumeClaim{}
	must(t, s.Get(context.Background(), client.ObjectKey{Name: naming.Claim(disk, pod)}, &claim))
	return claim
}

// checkPins checks that every claim has the volume of its own disk on its pod's node.
func (s *suite) checkPins(t *testing.T) {
	t.Helper()
	byName := map[string]string{}
	for place, v := range s.localVolumes(t) {
		byName[v.Name] = place
	}
	for _, pod := range s.cachePods(t) {
		for _, disk := range s.cacheNode(t).Spec.Disks {
			claim := s.claim(t, disk.Name, pod.Name)
			if got, want := byName[claim.Spec.VolumeName], pod.Spec.NodeName+" "+disk.LocalPath.Path; got != want {
				t.Errorf("%s of %s is %q, want %q", disk.Name, pod.Name, got, want)
			}
		}
	}
}

// tree returns the plan of the current spec in the form that finds the disk of a key.
func (s *suite) tree(t *testing.T) shard.Tree {
	t.Helper()
	return shard.NewPlan(effective.ShardDisks(s.cacheNode(t).Spec.Disks)).Tree()
}

// where returns the name of the pod's node.
func (p *target) where(t *testing.T) string { return p.pod(t).Spec.NodeName }

// renewed waits until the pod is ready and its UID differs from before.
func (p *target) renewed(t *testing.T, before string, most time.Duration) {
	t.Helper()
	within(t, most, func() string {
		pod := &corev1.Pod{}
		if err := p.Get(context.Background(), client.ObjectKey{Name: p.name}, pod); err != nil {
			return err.Error()
		}
		if string(pod.UID) == before || !isReady(*pod) {
			return p.name + " is the one of before, or not ready"
		}
		return ""
	})
}

// scale returns the scale subresource as JSON.
func scale(t *testing.T) string {
	t.Helper()
	return kubectl(t, "", "get", "--raw",
		"/apis/cachenode.io/v1alpha1/namespaces/"+namespace+"/cachenodes/"+name+"/scale")
}

// statusOf returns the status of a condition, or "" if there is none.
func statusOf(cacheNode *v1alpha1.CacheNode, kind string) string {
	if c := meta.FindStatusCondition(cacheNode.Status.Conditions, kind); c != nil {
		return string(c.Status)
	}
	return ""
}
