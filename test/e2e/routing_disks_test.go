package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// editEachDisk adds fields to each disk of the sample.
func (s *suite) editEachDisk(t *testing.T, fields func(i int) string) {
	t.Helper()
	s.setDisks(t, s.cacheNode(t).Spec.Disks, fields)
}

// setDisks sets spec.disks to the given disks of the sample, with additional fields.
func (s *suite) setDisks(t *testing.T, list []v1alpha1.Disk, fields func(i int) string) {
	t.Helper()
	var disks []string
	for i, d := range list {
		disks = append(disks, fmt.Sprintf(`{"name":%q,"size":%q,"storageClassName":%q,"media":"HDD",%s}`,
			d.Name, d.Size.String(), *d.StorageClassName, fields(i)))
	}
	must(t, edit(`{"spec":{"disks":[`+strings.Join(disks, ",")+`]}}`))
}

// fills counts the objects whose keys had moved. moved is the number of objects that came from the disk or pod that had
// them before. fetched is the number of objects that came from the origin.
func (s *suite) fills(t *testing.T) (moved, fetched int) {
	t.Helper()
	for _, pod := range s.cachePods(t) {
		text := kubectl(t, "", "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/metrics",
			namespace, pod.Name, layout.MetricsPort))
		for line := range strings.Lines(text) {
			var source string
			var n int
			if _, err := fmt.Sscanf(line, `cachenode_fills_total{source=%q} %d`, &source, &n); err == nil {
				if source == agentapi.FromOrigin {
					fetched += n
				} else {
					moved += n
				}
			}
		}
	}
	return moved, fetched
}

// reweighsDisks moves a sixth of the keys of each pod to other disks, under load.
func reweighsDisks(t *testing.T, s *suite) {
	s.cache(t, shared)
	movedBefore, fetchedBefore := s.fills(t)
	load := s.calmLoad(t, shared)
	s.editEachDisk(t, func(i int) string { return fmt.Sprintf(`"weight":%d`, []int{100, 100, 50}[i]) })
	s.current(t)
	checkLoad(t, load.more(t, 300).end())
	moved, fetched := s.fills(t)
	moved, fetched = moved-movedBefore, fetched-fetchedBefore
	t.Logf("%d objects were filled from the disk that had them, %d from the origin", moved, fetched)
	if moved < len(shared)/20 || fetched > 0 {
		t.Errorf("%d objects were filled from the disk that had them, %d from the origin", moved, fetched)
	}
}

// losesDisk removes one of three disks under load. During the hand-over, the disk must stay in the pods, so that the
// other disks can fill from it.
func losesDisk(t *testing.T, s *suite) {
	s.cache(t, moving)
	first := s.cachePods(t)
	bodies, disks := s.bodies(t), s.cacheNode(t).Spec.Disks
	const leaves = 30 * time.Second
	must(t, edit(`{"spec":{"routing":{"handover":"`+leaves.String()+`"}}}`))
	load := s.calmLoad(t, moving)
	s.setDisks(t, disks[:len(disks)-1], func(int) string { return `"cache":{"maxSize":"24Mi"}` })
	begun := time.Now()
	for time.Since(begun) < leaves-2*time.Second {
		if n := s.newPods(t, first); n > 0 {
			t.Fatalf("%d pods were replaced after %s", n, time.Since(begun))
		}
		time.Sleep(time.Second)
	}
	sent := s.bodies(t) - bodies
	s.replaces(t, first)
	s.current(t)
	checkLoad(t, load.more(t, 300).end())
	must(t, edit(`{"spec":{"routing":{"handover":"`+handover.String()+`"}}}`))
	t.Logf("the origin sent %d bodies while the disk left, and %d with the new pods", sent, s.bodies(t)-bodies)
	if float64(sent) > tolerated*float64(len(moving)/3) {
		t.Errorf("the origin sent %d bodies while the disk left", sent)
	}
}

// newPods returns the number of pods that are not in the list first.
func (s *suite) newPods(t *testing.T, first []corev1.Pod) (n int) {
	t.Helper()
	for _, pod := range s.cachePods(t) {
		isNew := !slices.ContainsFunc(first, func(p corev1.Pod) bool { return p.UID == pod.UID })
		if isNew && pod.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}

// replaces waits until all pods have been replaced.
func (s *suite) replaces(t *testing.T, first []corev1.Pod) {
	t.Helper()
	within(t, 3*time.Minute, func() string {
		if n := s.newPods(t, first); n < len(first) {
			return fmt.Sprintf("%d pods are new", n)
		}
		return ""
	})
	s.current(t)
}

// gainsDisk adds the removed disk again, under load. The disk's old objects have been purged, so the objects whose keys
// move to it come from the other disks. While a pod is replaced, its stand-ins fetch requested objects from the origin,
// each object once.
func gainsDisk(t *testing.T, s *suite) {
	plugin(t, "", "purge", name, "--all", "--wait", "settled")
	s.cache(t, shared)
	first, disks := s.cachePods(t), s.cacheNode(t).Spec.Disks
	another := disks[0]
	another.Name = "disk3"
	// The claims of the volumes are gone, but the volumes still refer to them. The disks still contain the caches.
	for volume := range strings.FieldsSeq(kubectl(t, "", "get", "persistentvolumes", "-o",
		`jsonpath={.items[?(@.status.phase=="Released")].metadata.name}`)) {
		kubectl(t, "", "patch", "persistentvolume", volume, "--type=merge", "-p", `{"spec":{"claimRef":null}}`)
	}
	bodies, load := s.bodies(t), s.calmLoad(t, shared)
	s.setDisks(t, append(disks, another), func(int) string { return `"cache":{"maxSize":"24Mi"}` })
	s.replaces(t, first)
	checkLoad(t, load.more(t, 300).end())
	moved, fetched := s.fills(t) // the agents are new, so their counters began at 0
	sent := s.bodies(t) - bodies
	t.Logf("%d objects were filled from the disk that had them, %d by stand-ins from the origin, which sent %d bodies",
		moved, fetched, sent)
	if moved < len(shared)/20 || float64(sent) > (1+tolerated/3)*float64(len(shared)) {
		t.Errorf("%d objects were filled from the disk that had them, and the origin sent %d bodies", moved, sent)
	}
}

// slowOwnersDisk slows one disk of the last pod down to one read a second. The first pod gets requests for keys of all
// disks of the last pod. No request may fail, and the other disks must answer as before.
func slowOwnersDisk(t *testing.T, s *suite) {
	const disk = "disk1"
	first, slow := s.target(t, name+"-0"), s.target(t, name+"-2")
	locator, paths, at := s.owners(t, 3).Locator(), []string{}, map[string]string{}
	for _, path := range fresh("slow", 1000) {
		if owner, _, _, ok := locator.Holders("http://" + name + path); ok && owner == 2 {
			paths = append(paths, path)
		}
	}
	within(t, time.Minute, func() string { // an earlier step cut the pod off
		for _, r := range first.get(t, paths) {
			if r.Error != "" {
				t.Fatalf("%s: %s", r.Path, r.Error)
			}
			if at[r.Path] = r.Disk; r.Hop != "peer" && r.Hop != "memory" {
				return fmt.Sprintf("%s was answered by %q", r.Path, r.Hop)
			}
		}
		return ""
	})
	calm := first.load(t, paths, 100, 100).more(t, 300).end()
	uid := string(slow.pod(t).UID)
	slow.evict(t)
	slow.fault(t, "throttle", disk, uid, "1")
	isSlow := true
	t.Cleanup(func() {
		if isSlow {
			slow.fault(t, "throttle", disk, uid, "0")
		}
	})
	reads := slow.fault(t, "throttled", disk, uid)
	load := first.load(t, paths, 100, 100)
	slow.becomes(t, disk, time.Minute, "Slow")
	load.more(t, 500)
	readsAfter := slow.fault(t, "throttled", disk, uid)
	slow.fault(t, "throttle", disk, uid, "0")
	isSlow = false
	lifted := time.Now()
	during := load.end() // some bodies were still being read from the disk
	slow.becomes(t, disk, 90*time.Second)
	s.current(t)
	others := func(r report.Result) bool { return at[r.Path] != disk }
	standIns := count(during, func(r report.Result) bool { return others(r) && r.Hop != "peer" && r.Hop != "memory" })
	before, after, own := count(calm, others), count(during, others),
		count(during, func(r report.Result) bool { return !others(r) })
	t.Logf("the other disks: before the fault %s; then %s, of which %d were not answered by their owner",
		before, after, standIns.requests)
	t.Logf("the slow disk: %s", own)
	if readsAfter == reads {
		t.Error("the throttle let no read through: nothing is shown")
	}
	if after.failed+own.failed > 0 {
		t.Errorf("%d and %d requests failed: %v %v", after.failed, own.failed, after.errors, own.errors)
	}
	if own.requests == 0 || after.requests == standIns.requests {
		t.Errorf("%d requests for the slow disk; the owner answered none of %d for the others", own.requests, after.requests)
	}
	if isLong && standIns.requests > after.requests/20 { // on a busy machine, owners may answer late
		t.Errorf("%d of %d requests for the other disks were not answered by their owner", standIns.requests, after.requests)
	}
	t.Logf("the disk is in use again %s after the fault", time.Since(lifted).Round(time.Second))
}
