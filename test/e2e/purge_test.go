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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// groups is how many tags and folders there are.
const groups = 10

// versioned are objects whose origin says which version they are.
var versioned = func() (paths []string) {
	for i := range 40 {
		paths = append(paths, fmt.Sprintf("/versions/t%d/%d", i%groups, i))
	}
	return paths
}()

// TestPurge purges objects in all ways, while clients ask for them and while parts of the system end.
func TestPurge(t *testing.T) {
	nativeOnly(t)
	s := newSuite(t)
	s.startsWith(t, "  routing: {handover: 0s}\n  purge: {grace: 2s}\n  memoryTier: {enabled: true, size: 64Mi}\n")
	s.inOrder(t, []step{
		{"each way to purge leaves nothing in any pod", purgesAllWays},
		{"a pod that was down obeys the purges of that time, without the operator", obeysWhatItMissed},
		{"requests over HTTP that come together leave nothing in any pod", purgesOverHTTP},
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
	var urls, tags []string
	for _, path := range versioned {
		urls = append(urls, "https://"+name+path)
	}
	for i := range groups {
		tags = append(tags, "--tag", fmt.Sprintf("t%d", i))
	}
	return [][]string{
		urls,
		tags,
		{"--tag", "all"},
		{"--prefix", "http://" + name + "/versions/"},
		{"--host", name},
		{"--all"},
	}
}

// purgesOf is a purge of the objects of a group, in one of the ways.
func purgesOf(group int) (spec v1alpha1.CachePurgeSpec) {
	folder := fmt.Sprintf("/versions/t%d/", group)
	switch rand.IntN(3) {
	case 0:
		spec.Tags = []string{fmt.Sprintf("t%d", group)}
	case 1:
		spec.Prefixes = []string{"http://" + name + folder}
	case 2:
		for _, path := range versioned {
			if strings.HasPrefix(path, folder) {
				spec.URLs = append(spec.URLs, "http://"+name+path)
			}
		}
	}
	return spec
}

// purgeAll purges all objects with the plugin, and returns what it prints.
func purgeAll(t *testing.T, how []string, more ...string) string {
	t.Helper()
	return plugin(t, "", append(append([]string{"purge", name}, how...), more...)...)
}

func purgesAllWays(t *testing.T, s *suite) {
	some := versioned[:groups+5]
	for _, how := range waysToPurge() {
		for _, pod := range s.cachePods(t) {
			s.target(t, pod.Name).warm(t, some)
		}
		want := publish(t)
		text := purgeAll(t, how)
		t.Logf("%.60s: %s", fmt.Sprint(how), text)
		if !strings.Contains(text, "applied in 3 pods") {
			t.Errorf("the plugin says %q", text)
		}
		for _, pod := range s.cachePods(t) {
			for _, r := range s.target(t, pod.Name).get(t, some) {
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
		for _, r := range s.target(t, name+"-0").get(t, some) {
			if r.Cache == "HIT" {
				hits++
			}
		}
	}
	if hits < len(some)/2 {
		t.Errorf("after a purge of something else, %d of %d objects are HITs", hits, len(some))
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

// soakTime is how long the short soak lasts; CACHENODE_TEST_SOAK has another duration.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("CACHENODE_TEST_SOAK"); text != "" {
		duration, err := time.ParseDuration(text)
		must(t, err)
		return duration
	}
	return time.Minute
}

// settled is a purge of a group of objects before a version, and when it was done.
type settled struct {
	group           int
	version         int64
	applied, settle time.Time
}

func soaks(t *testing.T, s *suite) {
	var ends []func() []report.Result
	for i := range 2 { // the third pod is deleted
		ends = append(ends, s.target(t, naming.Pod(name, i)).load(t, versioned, 100, 8))
	}
	faults := []func(){ // one after another, again and again
		func() { s.kill(t, name+"-0", "agent") },
		func() { kubectl(t, "", "delete", "pod", name+"-2", "--wait=false") },
		func() { operatorKubectl(t, "delete", "pods", "--all", "--wait=false") },
		func() { s.kill(t, name+"-1", "nginx") },
	}
	var mutex sync.Mutex
	var purges []settled
	var waiting sync.WaitGroup
	for begun, n := time.Now(), 0; time.Since(begun) < soakTime(t); n++ {
		group := rand.IntN(groups)
		cp := &v1alpha1.CachePurge{Spec: purgesOf(group)}
		cp.GenerateName, cp.Namespace, cp.Spec.CacheNode = "soak-", namespace, name
		cp.Spec.TTLSecondsAfterFinished = new(int32(60))
		one := settled{group: group, version: publish(t)}
		must(t, s.Create(t.Context(), cp))
		waiting.Go(func() {
			s.purgeSettles(t, cp)
			one.applied, one.settle = cp.Status.AppliedAt.Time, time.Now()
			mutex.Lock()
			defer mutex.Unlock()
			purges = append(purges, one)
		})
		if n%10 == 9 {
			faults[n/10%len(faults)]()
		}
		time.Sleep(time.Second)
	}
	waiting.Wait()
	time.Sleep(time.Second) // of requests after the last purge has settled
	checkVersions(t, purges, ends)
	s.current(t)
}

// purgeSettles waits until a purge has settled.
func (s *suite) purgeSettles(t *testing.T, cp *v1alpha1.CachePurge) {
	deadline := time.Now().Add(2 * time.Minute)
	for ; cp.Status.Phase != v1alpha1.PurgeSettled; time.Sleep(50 * time.Millisecond) {
		fresh := &v1alpha1.CachePurge{}
		if s.Get(t.Context(), client.ObjectKeyFromObject(cp), fresh) == nil {
			*cp = *fresh
		}
		if time.Now().After(deadline) {
			t.Errorf("%s is %s: %s", cp.Name, cp.Status.Phase, cp.Status.Message)
			now := metav1.NowMicro()
			cp.Status.AppliedAt = &now
			return
		}
	}
}

// checkVersions ends the loads and compares what they got with the purges.
func checkVersions(t *testing.T, purges []settled, ends []func() []report.Result) {
	t.Helper()
	requests, hits, late, old := 0, 0, 0, 0
	for _, end := range ends {
		for _, r := range end() {
			if r.Error != "" {
				continue // faults of pods have tests of their own
			}
			requests++
			if r.Cache == "HIT" {
				hits++
			}
			for _, p := range purges {
				if r.Version >= p.version || !strings.HasPrefix(r.Path, fmt.Sprintf("/versions/t%d/", p.group)) {
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
	if requests < 1000 || hits < requests/10 || len(purges) < 10 {
		t.Error("that is too little to show anything")
	}
}

// kill kills a container of a pod.
func (s *suite) kill(t *testing.T, pod, container string) {
	t.Helper()
	cluster(t, "fault", "kill", string(s.target(t, pod).pod(t).UID), container)
}
