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
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// calmLoad starts the load for a change. When it returns, the load already contains requests from before the change.
func (s *suite) calmLoad(t *testing.T, paths []string) load[report.Summary] {
	t.Helper()
	return s.load(t, paths).more(t, 300)
}

// tolerated limits the bodies that the origin sends during an announced change, as a share of the moved objects. On an
// idle machine, the share is about one in a hundred at most. On a busy machine, some fills take too long. Without
// fills, the origin would send nearly all moved objects.
var tolerated = func() float64 {
	if isLong {
		return 0.2
	}
	return 0.5
}()

// movesKeys makes an announced change under load. After the change, as many pods as the parameter owners says own keys.
// When all pods know the change, movesKeys calls made. Before the change and during the hand-over, it requests all
// objects, because a new owner gets only the objects that are requested during the hand-over. Then it ends the
// hand-over.
func (s *suite) movesKeys(t *testing.T, change func(), owners int, made func(before, after fleet.Fleet)) {
	t.Helper()
	s.cache(t, moving)
	before := s.owned(t)
	bodies := s.bodies(t)
	change()
	after := s.owners(t, owners)
	if r := s.cacheNode(t).Status.Routing; r == nil || r.HandoverUntil == nil {
		t.Errorf("no keys are handed over: %+v", r)
	}
	made(before, after)
	s.cache(t, moving)
	sent := s.bodies(t) - bodies
	s.endHandover(t)
	plan, ok := before.Plan()
	next, has := after.Plan()
	if !ok || !has {
		t.Fatalf("nobody owned keys in %s, or in %s", before, after)
	}
	from, to, moved := plan.Tree(), next.Tree(), 0
	for _, path := range moving {
		key := []byte(fleet.KeyPrefix + "http://" + name + path)
		if from.Owner(key) != to.Owner(key) {
			moved++
		}
	}
	t.Logf("%d of %d keys moved, and the origin sent %d bodies until they had been handed over", moved, len(moving), sent)
	if float64(sent) > tolerated*float64(moved) || moved < len(moving)/10 {
		t.Errorf("the origin sent %d bodies for %d keys that moved by an announced change", sent, moved)
	}
}

// owned returns which pods own keys, as the ConfigMap says. It does not read the annotations of pods, because a new pod
// may not have its annotation yet.
func (s *suite) owned(t *testing.T) fleet.Fleet {
	t.Helper()
	config := &corev1.ConfigMap{}
	must(t, s.Get(context.Background(), client.ObjectKey{Name: naming.ConfigMap(name)}, config))
	f, err := fleet.Read(config.Data[naming.FleetKey])
	must(t, err)
	return f
}

// endHandover ends the current hand-over, if there is one. For this, it sets routing.handover to one second.
func (s *suite) endHandover(t *testing.T) {
	t.Helper()
	must(t, edit(`{"spec":{"routing":{"handover":"1s"}}}`))
	within(t, time.Minute, func() string {
		c := s.cacheNode(t)
		if r := c.Status.Routing; r == nil || r.HandoverUntil != nil || c.Status.ObservedGeneration != c.Generation {
			return fmt.Sprintf("keys are still handed over: %+v", r)
		}
		return ""
	})
	must(t, edit(`{"spec":{"routing":{"handover":"`+handover.String()+`"}}}`))
}

// cache requests objects through all nodes, so that they are in the cache.
func (s *suite) cache(t *testing.T, paths []string) {
	t.Helper()
	for node := range s.clients {
		for _, r := range s.fetch(t, node, paths, "-base", base) {
			if r.Error != "" {
				t.Errorf("%s: %s", r.Path, r.Error)
			}
		}
	}
}

// addsVolumes adds disks for a fourth pod to a node. At the end of the test, they are removed.
func addsVolumes(t *testing.T, node string) {
	t.Helper()
	for _, disk := range []string{"disk4", "disk5", "disk6"} {
		path := cluster(t, "fault", "add", node, disk)
		volume := node + "-" + disk
		t.Cleanup(func() {
			kubectl(t, "", "delete", "persistentvolume", volume, "--ignore-not-found", "--wait=false")
			cluster(t, "fault", "drop", node, disk)
		})
		kubectl(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":%q},"spec":{
  "capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Retain",
  "storageClassName":"local-disks","local":{"path":%q},
  "nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[
    {"key":"kubernetes.io/hostname","operator":"In","values":[%q]}]}]}}}}`, volume, path, node), "apply", "-f", "-")
	}
}

// scalesOwners scales from three pods to four and back under load.
func scalesOwners(t *testing.T, s *suite) {
	addsVolumes(t, s.target(t, name+"-1").where(t))
	load := s.calmLoad(t, moving)
	scale := func(replicas int) func() {
		return func() { kubectl(t, "", "scale", "cachenode/"+name, fmt.Sprintf("--replicas=%d", replicas)) }
	}
	s.movesKeys(t, scale(4), 4, func(_, after fleet.Fleet) {
		if len(after.Previous.Members) != 3 {
			t.Errorf("nobody hands keys over: %s", after)
		}
	})
	s.movesKeys(t, scale(3), 3, func(_, after fleet.Fleet) {
		if pods := s.cachePods(t); len(after.Previous.Members) != 4 || len(pods) != 4 {
			t.Errorf("%d pods while keys are handed over: %s", len(pods), after)
		}
	})
	within(t, time.Minute, func() string {
		if pods := s.cachePods(t); len(pods) != 3 {
			return fmt.Sprintf("%d pods", len(pods))
		}
		return ""
	})
	s.current(t)
	checkLoad(t, load.more(t, 300).end())
	for _, disk := range []string{"disk1", "disk2", "disk3"} {
		claim := naming.Claim(disk, naming.Pod(name, 3))
		kubectl(t, "", "delete", "persistentvolumeclaim", claim, "--ignore-not-found")
	}
}

// drainsOwner drains a node under load with kubectl drain, as administrators do. kubectl tries to evict the pod
// immediately after the cordon. During the hand-over, the test also starts the plugin's verb drain, whose output must
// say what both commands wait for.
func drainsOwner(t *testing.T, s *suite) {
	p := s.target(t, name+"-0")
	node, uid := p.pod(t).Spec.NodeName, p.pod(t).UID
	load := s.calmLoad(t, moving)
	drained := make(chan error, 1)
	said := make(chan string, 1)
	defer kubectl(t, "", "uncordon", node)
	s.movesKeys(t, func() {
		go func() {
			_, err := tryKubectl("", "drain", node, "--pod-selector="+naming.LabelInstance+"="+name, "--delete-emptydir-data",
				"--ignore-daemonsets", "--timeout=10m")
			drained <- err
		}()
	}, 2, func(_, after fleet.Fleet) {
		if len(after.Away) != 1 || after.Away[0] != 0 {
			t.Errorf("away: %v", after.Away)
		}
		if now := p.pod(t).UID; now != uid {
			t.Error("the pod was evicted before it had handed its keys over")
		}
		go func() {
			out, err := exec.Command(os.Getenv("CACHENODE_TEST_PLUGIN"), "drain", node, "--timeout=10m").CombinedOutput()
			said <- fmt.Sprintf("%s%v", out, err)
		}()
		s.showsAway(t)
	})
	must(t, <-drained)
	text := <-said
	for _, line := range []string{
		"pod " + namespace + "/" + p.name + ": waits until ", "while keys are handed over: ",
		"node " + node + ": no cache pod is left\n<nil>",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("kubectl cachenode drain does not say %q:\n%s", line, text)
		}
	}
	s.movesKeys(t, func() { kubectl(t, "", "uncordon", node) }, 3, func(fleet.Fleet, fleet.Fleet) {})
	s.current(t)
	checkLoad(t, load.more(t, 300).end())
}

// showsAway checks the status and the events about a pod that hands its keys over before it leaves.
func (s *suite) showsAway(t *testing.T) {
	t.Helper()
	within(t, 10*time.Second, func() string {
		status := s.cacheNode(t).Status
		if pod := status.Pods[0]; status.Routing.Owners != 2 || pod.Share != "0.00%" || pod.Message == "" {
			return fmt.Sprintf("the status says %+v", status)
		}
		wait := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEvictionsWait)
		until := status.Routing.HandoverUntil
		if until == nil || wait.Status != "True" || !strings.Contains(wait.Message, until.UTC().Format(time.RFC3339)) {
			return fmt.Sprintf("keys are handed over until %s, and evictions wait: %+v", until, wait)
		}
		if told := kubectl(t, "", "get", "events", "--field-selector", "reason="+v1alpha1.ReasonHandingOver, "-o",
			"jsonpath={.items[*].note}{.items[*].message}"); !strings.Contains(told, wait.Message) {
			return fmt.Sprintf("the events say %q, want %q", told, wait.Message)
		}
		return ""
	})
}
