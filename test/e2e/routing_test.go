package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// handover is the duration of a hand-over in TestRouting. It is long, so that a step can check the state during a
// hand-over. After the check, the step ends the hand-over by endHandover.
const handover = 10 * time.Minute

// faultRequests is the number of requests to the first pod during a fault, with at most 200 requests a second. If a pod
// does not answer, nginx sends it no requests for ten seconds (fail_timeout). The fault lasts longer than this, so that
// the test includes nginx's next try.
const faultRequests = 2400

// all contains the paths of objects of sharedBytes bytes each. shared are the paths that most steps request. moving are
// the paths that steps request while the owners of keys change.
var (
	all = func() (paths []string) {
		n := 1000
		if isLong {
			n = 3000
		}
		for i := range n {
			paths = append(paths, fmt.Sprintf("/objects/%d/shared-%d", sharedBytes, i))
		}
		return paths
	}()
	shared = all[:300]
	moving = all[:600]
)

const sharedBytes = 20_000

// TestRouting tests a CacheNode whose pods share the keys, during faults and changes of its pods. The clients do not
// retry.
func TestRouting(t *testing.T) {
	nativeOnly(t)
	s := newSuite(t)
	s.startsWith(t, "  routing: {handover: "+handover.String()+"}\n", soon...)
	s.owners(t, 3)
	s.inOrder(t, []step{
		{"the origin is asked once for an object, and one disk holds it", sharesKeys},
		{"explain names the owner", explainsOwner},
		{"a pod that is deleted costs no request", deletedOwner},
		{"a pod that is replaced is found at its new address", replacedOwner},
		{"an agent that is killed or hangs costs no request", failingAgent},
		{"a pod that hangs costs no request of another pod", hangingOwner},
		{"a pod that is killed costs no request of another pod", killedOwner},
		{"a pod that is cut off costs no request of another pod", cutOffOwner},
		{"one slow disk costs no request, and the pod's other disks answer", slowOwnersDisk},
		{"a pod that joins takes keys, and hands them over when it is scaled away", scalesOwners},
		{"the pods of a drained node hand their keys over before they are evicted", drainsOwner},
		{"a new pod template costs no request", rollsTemplate},
		{"many edits cost no request", long(func(t *testing.T, s *suite) { manyEdits(t, s.target(t, name+"-0")) })},
		{"keys that move to another disk are filled from the disk that had them", reweighsDisks},
		{"with zones, each has its own copy", sharesInZones},
		{"pods that share hold twice what one pod holds; the mode changes under load", long(outgrowsPod)},
		{"a disk that is removed stays until the others have filled from it", long(losesDisk)},
		{"a disk that is added is filled from the others", long(gainsDisk)},
		{"a node that loses its power costs no request of another pod", ownersNodeStops},
	})
}

// owners waits until the given number of pods own keys and all pods use this assignment. It returns the assignment.
func (s *suite) owners(t *testing.T, count int) fleet.Fleet {
	t.Helper()
	var f fleet.Fleet
	within(t, time.Minute, func() string {
		for _, pod := range s.cachePods(t) {
			var err error
			f, err = fleet.Read(pod.Annotations[naming.AnnotationFleet])
			must(t, err)
			if len(f.Present()) != count {
				return fmt.Sprintf("the annotation of %s is %s, want %d owners", pod.Name, f, count)
			}
		}
		r, pods := s.cacheNode(t).Status.Routing, len(s.cachePods(t))
		if r == nil || int(r.Owners) != count || r.Applied != fmt.Sprintf("%d/%d", pods, pods) {
			return fmt.Sprintf("status.routing is %+v, want %d owners in %d pods", r, count, pods)
		}
		return ""
	})
	return f
}

// asked returns the number of requests for objects that the origin has received.
func (s *suite) asked(t *testing.T) int {
	t.Helper()
	count, err := strconv.Atoi(strings.TrimSpace(s.originCount(t)))
	must(t, err)
	return count
}

// bodies returns the number of bodies of objects that the origin has sent.
func (s *suite) bodies(t *testing.T) int {
	t.Helper()
	count, err := strconv.Atoi(strings.TrimSpace(originSays(t, "bodies")))
	must(t, err)
	return count
}

// sharesKeys checks that the origin gets one request for each object, and that the object is on one disk only. On a
// busy machine, an owner may not answer in time. Then another pod answers and may fetch the object too. answeredBy
// counts these requests.
func sharesKeys(t *testing.T, s *suite) {
	before := s.asked(t)
	var results []report.Result
	for node := range s.clients {
		results = append(results, s.fetch(t, node, all, "-base", base)...)
	}
	peers, others := s.answeredBy(t, results)
	if peers == 0 {
		t.Error("no pod asked another one")
	}
	t.Logf("%d requests, %d answered by the owner for another pod, %d by pods that do not own the key",
		len(results), peers, others)
	if got := s.asked(t) - before; got < len(all) || got > len(all)+others {
		t.Errorf("the origin was asked %d times for %d objects", got, len(all))
	}
	files, bytes := 0, 0
	for _, pod := range s.cachePods(t) {
		sizes := cacheFiles(t, pod.Name, "%s")
		for _, size := range sizes {
			n, err := strconv.Atoi(size)
			must(t, err)
			bytes += n
		}
		if n := len(sizes); n < len(all)/4 || n > len(all)/2+others {
			t.Errorf("%s has %d of %d objects", pod.Name, n, len(all))
		}
		files += len(sizes)
	}
	t.Logf("%d objects of %d bytes are %d files with %d bytes", len(all), sharedBytes, files, bytes)
	if files < len(all) || files > len(all)+others || bytes > files*sharedBytes*11/10 {
		t.Errorf("%d objects of %d bytes are %d files with %d bytes", len(all), sharedBytes, files, bytes)
	}
}

// answeredBy counts two kinds of requests. peers is the number of requests that one pod received and the owner of the
// key answered. others is the number of requests that were answered by a pod that does not own the key. A failed
// request fails the test.
func (s *suite) answeredBy(t *testing.T, results []report.Result) (peers, others int) {
	t.Helper()
	owning, err := fleet.Read(s.cachePods(t)[0].Annotations[naming.AnnotationFleet])
	must(t, err)
	for _, r := range results {
		if r.Error != "" {
			t.Errorf("%s: %s", r.Path, r.Error)
			continue
		}
		asked, ok := naming.Ordinal(name, r.Pod)
		if !ok {
			t.Fatalf("%s was answered by %q", r.Path, r.Pod)
		}
		switch owner, _, _, _ := owning.For(asked).Holders("http://" + name + r.Path); {
		case r.Hop == "peer":
			peers++
		case r.Hop == "standin", owner != asked:
			others++
		}
	}
	return peers, others
}

func explainsOwner(t *testing.T, s *suite) {
	owner, standIn, _, _ := s.owners(t, 3).Holders("http://" + name + shared[0])
	text := plugin(t, "", "explain", name, "http://"+name+shared[0])
	want := fmt.Sprintf("Owner: %s; if it does not answer, %s\n", naming.Pod(name, owner), naming.Pod(name, standIn))
	if !strings.Contains(text, want) {
		t.Errorf("%q is not in\n%s", want, text)
	}
	for line := range strings.Lines(text) {
		if held := strings.Contains(line, " yes "); strings.HasPrefix(line, name+"-") &&
			held != strings.HasPrefix(line, naming.Pod(name, owner)+" ") {
			t.Errorf("the object should be in %s alone:\n%s", naming.Pod(name, owner), text)
		}
	}
}

func deletedOwner(t *testing.T, s *suite) {
	before := s.asked(t)
	load := s.calmLoad(t, shared)
	kubectl(t, "", "delete", "pod", name+"-1")
	s.current(t)
	checkLoad(t, load.more(t, 300).end())
	// The origin may be asked for the keys of the deleted pod only. It may be asked twice for a key if the key's stand-in
	// asked while the pod was ending.
	if got := s.asked(t) - before; got > len(shared)*2/3 {
		t.Errorf("the origin was asked %d times", got)
	}
}

// rollsTemplate replaces all pods under load, one after another. While a pod is away, its stand-ins fetch each
// requested object once.
func rollsTemplate(t *testing.T, s *suite) {
	before := uids(s.cachePods(t))
	bodies, load := s.bodies(t), s.calmLoad(t, shared)
	must(t, edit(`{"spec":{"pod":{"annotations":{"example.com/edited":"yes"}}}}`))
	s.current(t)
	checkLoad(t, load.more(t, 300).end())
	for pod, uid := range uids(s.cachePods(t)) {
		if before[pod] == uid {
			t.Errorf("%s is still the old pod", pod)
		}
	}
	sent := s.bodies(t) - bodies
	t.Logf("the origin sent %d bodies of %d objects", sent, len(shared))
	if sent > len(shared) {
		t.Errorf("the origin sent %d bodies of %d objects", sent, len(shared))
	}
}
