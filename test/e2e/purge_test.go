package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/client/report"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// versioned are objects whose origin says which version they are.
var versioned = func() (paths []string) {
	for i := range 40 {
		paths = append(paths, fmt.Sprintf("/versions/t%d/%d", i%4, i))
	}
	return paths
}()

// TestPurge purges objects in all ways, while clients ask for them and while parts of the system end.
func TestPurge(t *testing.T) {
	nativeOnly(t)
	s := newSuite(t)
	within(t, time.Minute, func() string { // what the test before has deleted holds disks until it is gone
		const bound = `jsonpath={.items[?(@.status.phase=="Bound")].metadata.name}`
		return strings.TrimSpace(kubectl(t, "", "get", "pvc", "-o", bound))
	})
	cluster(t, "recycle")
	t.Cleanup(func() { kubectl(t, "", "delete", "cachenode", name, "--ignore-not-found", "--wait") })
	text, err := os.ReadFile(sample)
	must(t, err)
	kubectl(t, strings.Replace(string(text), "spec:\n",
		"spec:\n  routing: {handover: 0s}\n  purge: {grace: 2s}\n  memoryTier: {enabled: true, size: 64Mi}\n", 1), "apply", "-f", "-")
	s.current(t)
	s.inOrder(t, []step{
		{"each way to purge leaves nothing in any pod", purgesAllWays},
		{"a pod that was down obeys the purges of that time, without the operator", obeysWhatItMissed},
		{"no body is older than its last settled purge, whatever ends meanwhile", soaks},
	})
}

// publish makes a new version of the objects.
func publish(t *testing.T) int64 {
	t.Helper()
	version, err := strconv.ParseInt(strings.TrimSpace(originSays(t, "publish")), 10, 64)
	must(t, err)
	return version
}

// waysToPurge are arguments of the plugin that purge all objects.
func waysToPurge() [][]string {
	var urls []string
	for _, path := range versioned {
		urls = append(urls, "https://"+name+path)
	}
	return [][]string{
		urls,
		{"--tag", "all"},
		{"--tag", "t0", "--tag", "t1", "--tag", "t2", "--tag", "t3"},
		{"--prefix", "http://" + name + "/versions/"},
		{"--host", name},
		{"--all"},
	}
}

// purgeAll purges all objects with the plugin, and returns what it prints.
func purgeAll(t *testing.T, how []string, more ...string) string {
	t.Helper()
	return plugin(t, "", append(append([]string{"purge", name}, how...), more...)...)
}

func purgesAllWays(t *testing.T, s *suite) {
	for _, how := range waysToPurge() {
		for _, pod := range s.cachePods(t) {
			s.target(t, pod.Name).warm(t, versioned)
		}
		want := publish(t)
		text := purgeAll(t, how)
		t.Logf("%.60s: %s", fmt.Sprint(how), text)
		if !strings.Contains(text, "applied in 3 pods") {
			t.Errorf("the plugin says %q", text)
		}
		for _, pod := range s.cachePods(t) {
			for _, r := range s.target(t, pod.Name).get(t, versioned) {
				if r.Error != "" || r.Version != want {
					t.Errorf("%.60s: %s of %s has version %d (%s, %s), want %d",
						fmt.Sprint(how), r.Path, pod.Name, r.Version, r.Cache, r.Error, want)
				}
			}
		}
	}
	purgeAll(t, []string{"--tag", "none"}, "--wait", "settled", "--ttl", "1s")
	hits := 0
	for range 2 {
		hits = 0
		for _, r := range s.target(t, name+"-0").get(t, versioned) {
			if r.Cache == "HIT" {
				hits++
			}
		}
	}
	if hits < len(versioned)/2 {
		t.Errorf("after a purge of something else, %d of %d objects are HITs", hits, len(versioned))
	}
	within(t, 20*time.Second, func() string { // those of the other purges stay for an hour
		if n := strings.Count(kubectl(t, "", "get", "cachepurges", "-o", "name"), "\n"); n != len(waysToPurge()) {
			return fmt.Sprintf("%d CachePurges", n)
		}
		return ""
	})
}

func obeysWhatItMissed(t *testing.T, s *suite) {
	for _, pod := range s.cachePods(t) {
		s.target(t, pod.Name).warm(t, versioned)
	}
	pod := s.target(t, name+"-1").pod(t)
	kubectl(t, "", "cordon", pod.Spec.NodeName)
	uncordon := func() { kubectl(t, "", "uncordon", pod.Spec.NodeName) }
	t.Cleanup(uncordon) // if the test fails before
	kubectl(t, "", "delete", "pod", pod.Name, "--wait")
	want := publish(t)
	purgeAll(t, []string{"--tag", "all"}, "--wait", "settled")
	operatorKubectl(t, "scale", "deployment/cachenode-operator", "--replicas=0")
	back := func() { operatorKubectl(t, "scale", "deployment/cachenode-operator", "--replicas=1") }
	t.Cleanup(back)
	uncordon()
	within(t, 2*time.Minute, func() string {
		for _, p := range s.cachePods(t) {
			if p.Name == pod.Name && isReady(p) {
				return ""
			}
		}
		return pod.Name + " is not ready"
	})
	for _, r := range s.target(t, pod.Name).get(t, versioned) {
		if r.Error != "" || r.Version != want {
			t.Errorf("%s has version %d (%s, %s), want %d", r.Path, r.Version, r.Cache, r.Error, want)
		}
	}
	back()
	s.current(t)
}

// soakTime is how long the short soak lasts; CACHENODE_SOAK has another duration.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("CACHENODE_SOAK"); text != "" {
		duration, err := time.ParseDuration(text)
		must(t, err)
		return duration
	}
	return time.Minute
}

// settled is a purge of all objects of a version before another.
type settled struct {
	version         int64
	applied, settle time.Time
}

func soaks(t *testing.T, s *suite) {
	var ends []func() []report.Result
	for i := range 2 { // the third pod is deleted
		ends = append(ends, s.target(t, naming.Pod(name, i)).load(t, versioned, 100, 8))
	}
	// Each fault in its turn, again and again.
	faults := []func(){
		func() { s.killAgent(t, name+"-0") },
		func() { kubectl(t, "", "delete", "pod", name+"-2", "--wait=false") },
		func() { operatorKubectl(t, "delete", "pods", "--all", "--wait=false") },
		func() { s.killAgent(t, name+"-1") },
	}
	var mutex sync.Mutex
	var purges []settled
	var group sync.WaitGroup
	ways := waysToPurge()
	for begun, n := time.Now(), 0; time.Since(begun) < soakTime(t); n++ {
		version := publish(t)
		how := ways[rand.IntN(len(ways))]
		cp := s.purgeByObject(t, fmt.Sprintf("soak-%d", n), how)
		group.Go(func() {
			one := settled{version: version}
			for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
				if err := s.Get(t.Context(), client.ObjectKeyFromObject(cp), cp); err != nil {
					continue
				}
				if cp.Status.Phase == v1alpha1.PurgeSettled {
					one.applied, one.settle = cp.Status.AppliedAt.Time, time.Now()
					mutex.Lock()
					purges = append(purges, one)
					mutex.Unlock()
					return
				}
			}
			t.Errorf("%s is %s: %s", cp.Name, cp.Status.Phase, cp.Status.Message)
		})
		if n%10 == 9 {
			faults[n/10%len(faults)]()
		}
		time.Sleep(time.Second)
	}
	group.Wait()
	time.Sleep(time.Second)
	s.checkVersions(t, purges, ends)
}

// purgeByObject creates a CachePurge with what the plugin's arguments mean.
func (s *suite) purgeByObject(t *testing.T, object string, how []string) *v1alpha1.CachePurge {
	t.Helper()
	cp := &v1alpha1.CachePurge{}
	cp.Name, cp.Namespace, cp.Spec.CacheNode = object, namespace, name
	for i := 0; i < len(how); i++ {
		switch how[i] {
		case "--tag":
			cp.Spec.Tags = append(cp.Spec.Tags, how[i+1])
			i++
		case "--prefix":
			cp.Spec.Prefixes = append(cp.Spec.Prefixes, how[i+1])
			i++
		case "--host":
			cp.Spec.Hosts = append(cp.Spec.Hosts, how[i+1])
			i++
		case "--all":
			cp.Spec.Everything = true
		default:
			cp.Spec.URLs = append(cp.Spec.URLs, how[i])
		}
	}
	must(t, s.Create(t.Context(), cp))
	return cp
}

// checkVersions ends the loads and compares what they got with the purges.
func (s *suite) checkVersions(t *testing.T, purges []settled, ends []func() []report.Result) {
	t.Helper()
	requests, hits, late, old := 0, 0, 0, 0
	for _, end := range ends {
		for _, r := range end() {
			if r.Error != "" {
				continue // faults of pods have tests of their own
			}
			requests++
			if r.Cache == "HIT" || strings.HasPrefix(r.Cache, "MEMORY") {
				hits++
			}
			for _, p := range purges {
				if r.Version >= p.version {
					continue
				}
				if began(r).After(p.settle) {
					if old++; old < 10 {
						t.Errorf("%s at %s from %s: version %d (%s), and the purge before version %d had settled at %s", r.Path,
							began(r).Format(time.TimeOnly), r.Pod, r.Version, r.Cache, p.version, p.settle.Format(time.TimeOnly))
					}
				} else if began(r).After(p.applied) {
					late++
				}
			}
		}
	}
	t.Logf("%d requests, %d HITs, %d purges: %d bodies after a purge had settled, %d between applied and settled",
		requests, hits, len(purges), old, late)
	if requests < 1000 || len(purges) < 10 {
		t.Errorf("%d requests and %d purges are too few to show anything", requests, len(purges))
	}
}

func (s *suite) killAgent(t *testing.T, pod string) {
	t.Helper()
	cluster(t, "fault", "kill", string(s.target(t, pod).pod(t).UID), "agent")
}
