package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// groups is the number of groups of objects. Each group has its own tag and its own folder.
const groups = 10

// versioned are the paths of objects whose body contains their version.
var versioned = versionedIn(groups)

// versionedIn returns the paths of such objects, four in each group.
func versionedIn(groups int) (paths []string) {
	for i := range 4 * groups {
		paths = append(paths, fmt.Sprintf("/versions/t%d/%d", i%groups, i))
	}
	return paths
}

// TestPurge purges objects in all possible ways. In some steps, clients request these objects while faults stop parts
// of the system.
func TestPurge(t *testing.T) {
	nativeOnly(t)
	s := newSuite(t)
	s.startsWith(t, "  routing: {handover: 0s}\n  purge: {grace: 2s}\n  memoryTier: {enabled: true, size: 64Mi}\n")
	s.inOrder(t, []step{
		{"each way to purge leaves nothing in any pod", purgesAllWays},
		{"the plugin lists what is cached", listsWhatIsCached},
		{"a POST makes stale what all pods have of its URL", postMakesStale},
		{"a pod that was down obeys the purges of that time, without the operator", obeysWhatItMissed},
		{"requests over HTTP that come together leave nothing in any pod", purgesOverHTTP},
		{"a hundred purges of one URL each", purgesOneByOne},
		{"a thousand purges of one URL a second", purgesAtRate},
		{"no body is older than its last settled purge, whatever ends meanwhile", soaks},
	})
}

// publish creates a new version of the objects on the origin, and returns its number.
func publish(t *testing.T) int64 {
	t.Helper()
	version, err := strconv.ParseInt(strings.TrimSpace(originSays(t, "publish")), 10, 64)
	must(t, err)
	return version
}

// waysToPurge returns arguments of the plugin that purge all objects.
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

// purgeAll runs the plugin's verb purge with the given arguments, and returns the output.
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
	within(t, 20*time.Second, func() string { // the other CachePurges stay for an hour
		if n := strings.Count(kubectl(t, "", "get", "cachepurges", "-o", "name"), "\n"); n != len(waysToPurge()) {
			return fmt.Sprintf("%d CachePurges", n)
		}
		return ""
	})
}

func postMakesStale(t *testing.T, s *suite) {
	path := versioned[7]
	for _, pod := range s.cachePods(t) {
		s.target(t, pod.Name).warm(t, []string{path})
	}
	pod := s.target(t, name+"-1").pod(t)
	text := cluster(t, "fault", "run", pod.Spec.NodeName, "curl", "--silent", "--show-error", "--fail", "--noproxy", "*",
		"-X", "POST", "-H", "Host: "+name, fmt.Sprintf("http://%s:8080%s", pod.Status.PodIP, path))
	want, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	must(t, err)
	within(t, 30*time.Second, func() string {
		for _, pod := range s.cachePods(t) {
			for _, r := range s.target(t, pod.Name).get(t, []string{path}) {
				if r.Error != "" || r.Version != want {
					return fmt.Sprintf("%s has version %d (%s, %s), want %d", pod.Name, r.Version, r.Cache, r.Error, want)
				}
			}
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
	t.Cleanup(uncordon) // if the test fails before it uncordons
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

// kill kills a container of a pod.
func (s *suite) kill(t *testing.T, pod, container string) {
	t.Helper()
	cluster(t, "fault", "kill", string(s.target(t, pod).pod(t).UID), container)
}
