package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

const nvme = "size: 1Gi, media: NVMe"

// fastSharded returns the spec of [sharded] with NVMe disks. For these disks, a hop waits one second.
func fastSharded(more string) string { return strings.ReplaceAll(sharded(more), "size: 1Gi", nvme) }

// owned returns the given number of paths with the given owner and the given stand-in.
func owned(t *testing.T, prefix string, owner, standIn, count int) (paths []string) {
	t.Helper()
	for i := 0; len(paths) < count; i++ {
		path := fmt.Sprintf("%s/%d", prefix, i)
		if o, s := owners(t, fleet.Of(3), path); o == owner && s == standIn {
			paths = append(paths, path)
		}
	}
	return paths
}

// TestStandInForAnOwner checks that one other pod answers for an owner that is killed, hangs, or is cut off, and that
// no request fails. Two requests for each of the owner's disks wait for the owner, and the other requests skip it.
func TestStandInForAnOwner(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*testing.T, *nginxtest.Nginx){
		"killed": func(t *testing.T, n *nginxtest.Nginx) {
			for _, pid := range n.Processes() {
				must(t, syscall.Kill(pid, syscall.SIGKILL))
			}
		},
		"hangs": func(t *testing.T, n *nginxtest.Nginx) {
			for _, pid := range n.Processes() {
				must(t, syscall.Kill(pid, syscall.SIGSTOP))
				t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
			}
		},
		"cut off": func(_ *testing.T, n *nginxtest.Nginx) { n.Disconnect() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPodsEdited(t, onlyForOwners, 3, fastSharded("  monitoring: {requestSampling: 100}\n"))
			paths := owned(t, "/object", 2, 1, 20)
			for _, path := range paths {
				p.get(t, 0, path)
			}
			reported := func() string { return fmt.Sprint(len(skips(p.nginx[0])), " reports") }
			becomes(t, "20 reports", reported)
			fail(t, p.nginx[2])
			for round := range 3 {
				for _, path := range paths {
					r := p.get(t, 0, path)
					want := "standin HIT"
					if round == 0 {
						want = "standin MISS"
					}
					if how(r) != want {
						t.Errorf("round %d, %s: %s, want %s", round, path, how(r), want)
					}
				}
			}
			for _, path := range paths {
				if n := p.requests(path); n != 2 {
					t.Errorf("%s: the origin was asked %d times, want 2", path, n)
				}
			}
			becomes(t, "80 reports", reported)
			waited := 0
			for _, skips := range skips(p.nginx[0])[20:] {
				if !skips {
					waited++
				}
			}
			// nginx tries a kept connection and then a new one, so one request can count as two failures.
			if waited > 4 || name != "killed" && waited < 4 || waited < 2 {
				t.Errorf("%d of 60 requests are reported to have waited for the owner, want two for each of its disks", waited)
			}
		})
	}
}

// onlyForOwners changes timeouts in a configuration. nginx waits only some seconds for an owner, because an owner that
// does not hang may be busy. For everything else, nginx waits as long as a test may take. nginx remembers failures of
// owners for an hour.
func onlyForOwners(text string) string {
	owner := regexp.MustCompile(`(?s)location @owner \{.*?\n        \}`)
	asked := patient(owner.FindString(text))
	text = strings.Replace(patient(text), asked, nginxtest.Hasty(asked), 1)
	return strings.ReplaceAll(text, "fail_timeout=10s", "fail_timeout=1h")
}

// TestAlone checks that a pod reports the requests that it answers as the stand-in of an owner that does not answer.
func TestAlone(t *testing.T) {
	t.Parallel()
	const all = "  monitoring: {requestSampling: 100}\n"
	for name, spec := range map[string]string{
		"fast disks":          fastSharded(all),
		"a HEAD first":        sharded(all + "  memoryTier: {enabled: false}\n"),
		"with memory":         sharded(all + nginxtest.MemoryTier("")),
		"with slices":         sharded(all + "  cache: {slice: {size: 1Mi}}\n"),
		"half of the reports": fastSharded("  monitoring: {requestSampling: 50}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, spec)
			f, paths := fleet.Of(2), []string{}
			for i := 0; len(paths) < 20; i++ {
				path := fmt.Sprintf("/object/%d", i)
				if ownerOf(t, f, path) == 1 {
					paths = append(paths, path)
				}
			}
			for _, pid := range p.nginx[1].Processes() {
				must(t, syscall.Kill(pid, syscall.SIGKILL))
			}
			for _, path := range paths {
				p.get(t, 0, path)
			}
			becomes(t, "as many reports as requests", func() string {
				cached, alone, skipped := 0, 0, 0
				for _, line := range p.nginx[0].Reports() {
					tag, text, _ := nginxlog.Split(line)
					r, ok := nginxlog.ParseRequest(tag, text)
					switch {
					case !ok:
					case tag == agentapi.TagCached:
						cached++
					case tag == agentapi.TagAlone && r.Owner == "1":
						alone++
						if r.SkipsOwner {
							skipped++
						}
					}
				}
				if cached == alone && skipped > alone/2 && (alone == 20 || alone > 2 && strings.Contains(spec, "50")) {
					return "as many reports as requests"
				}
				return fmt.Sprintf("%d reports, %d of requests of another pod, which skipped it %d times", cached, alone, skipped)
			})
		})
	}
}

// skips returns, for each reported request that another pod answered, whether the request skipped the owner.
func skips(n *nginxtest.Nginx) (list []bool) {
	for _, line := range n.Reports() {
		tag, text, _ := nginxlog.Split(line)
		if r, ok := nginxlog.ParseRequest(tag, text); ok && r.Owner != "" {
			list = append(list, r.SkipsOwner)
		}
	}
	return list
}

// TestSlowOrigin checks that a pod does not mistake a slow origin for an owner that hangs. Concurrent requests share
// the owner's one request to the origin.
func TestSlowOrigin(t *testing.T) {
	t.Parallel()
	p := newPodsEdited(t, hasty, 3, fastSharded(""))
	paths := owned(t, "/slow", 2, 1, 10)
	var group sync.WaitGroup
	for _, path := range paths {
		for pod := range 2 {
			group.Go(func() {
				if r := p.get(t, pod, path); r.Header.Get("X-Cache-Hop") != "peer" {
					t.Errorf("%s through pod %d: %s", path, pod, how(r))
				}
			})
		}
	}
	group.Wait()
	for _, path := range paths {
		if n := p.requests(path); n != 1 {
			t.Errorf("%s: the origin was asked %d times", path, n)
		}
	}
}

// TestDifferentPlans checks that requests do not go in circles while pods disagree on who owns a key.
func TestDifferentPlans(t *testing.T) {
	t.Parallel()
	p := newPods(t, 3, fastSharded(""))
	for pod, owner := range []int{1, 2, 0} { // for each pod, a different pod owns all keys
		var f fleet.Fleet
		f.Members = []int{owner}
		p.take(t, pod, f)
	}
	for i := range 20 {
		path := fmt.Sprintf("/object/%d", i)
		for pod := range p.nginx {
			if got := how(p.get(t, pod, path)); got != "peer MISS" {
				t.Errorf("%s through pod %d: %s", path, pod, got)
			}
		}
		if n := p.requests(path); n != 3 {
			t.Errorf("%s: the origin was asked %d times", path, n)
		}
	}
}

// fakePods returns a real nginx and two pods that the test simulates: lookup answers on their lookup ports, and fetch
// answers on their peer ports. replace contains pairs: a text in nginx's configuration and its replacement.
func fakePods(t *testing.T, yaml string, lookup, fetch http.Handler, replace ...string) (*pods, cache.Config) {
	t.Helper()
	p := &pods{yaml: yaml, edit: patient, asked: map[string]int{}, answered304: map[string]int{}}
	n := nginxtest.New(t)
	p.nginx = []*nginxtest.Nginx{n}
	p.addresses = map[int]string{0: "127.0.0.1", 1: "127.0.1.1", 2: "127.0.1.2"}
	n.Serve("127.0.0.1:9000", http.HandlerFunc(p.origin))
	n.Mkdir(layout.MemoryTierDir)
	config := p.render(t, 0, fleet.Of(3))
	// nginx would listen on these ports of all addresses. It must leave the ports of the other two pods free.
	text := p.edit(strings.NewReplacer(append(replace,
		"listen 8088;", "listen 127.0.0.1:8088;", "listen 8089;", "listen 127.0.0.1:8089;")...).Replace(config.Text))
	n.Configure(text, disks(text)...)
	for pod := 1; pod <= 2; pod++ {
		n.Serve(p.addresses[pod]+":8088", lookup)
		n.Serve(p.addresses[pod]+":8089", fetch)
	}
	n.Start()
	p.clients = []*http.Client{n.Client()}
	return p, config
}

// TestOneSlowDisk checks an owner with one disk that does not answer in time: only the keys of this disk go to the
// stand-in. After two requests, this disk gets no more requests, while the other disk gets all of its requests.
func TestOneSlowDisk(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	var mutex sync.Mutex
	var disk func(path string) string
	asked := map[string]int{} // the number of lookups in the owner, by disk
	answer := func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() && fmt.Sprint(r.Context().Value(http.LocalAddrContextKey)) == "127.0.1.2:8088" {
			mutex.Lock()
			asked[disk(r.URL.Path)]++
			mutex.Unlock()
			if disk(r.URL.Path) == "disk1" {
				<-r.Context().Done() // until nginx closes the connection
				return
			}
		}
		w.Header().Set("X-CacheNode-Status", "HIT")
		_, _ = io.WriteString(w, r.URL.Path+strings.Repeat(".", 3000))
	}
	p, config := fakePods(t, fastSharded(""), http.HandlerFunc(answer), http.NotFoundHandler(),
		"proxy_read_timeout 1s;", "proxy_read_timeout 3000ms;", "fail_timeout=10s", "fail_timeout=1h")
	tree := config.Plan.Tree()
	disk = func(path string) string { return tree.Owner([]byte("http://www.example.com" + path)) }
	paths := map[string][]string{}
	for _, path := range owned(t, "/object", 2, 1, 60) {
		paths[disk(path)] = append(paths[disk(path)], path)
	}
	slow.Store(true)
	for range 3 {
		for _, path := range paths["disk1"][:10] {
			if got := how(p.get(t, 0, path)); got != "standin HIT" {
				t.Errorf("%s, on the slow disk: %s", path, got)
			}
		}
	}
	for _, path := range paths["disk2"] {
		if got := how(p.get(t, 0, path)); got != "peer HIT" {
			t.Errorf("%s, on the other disk: %s", path, got)
		}
	}
	mutex.Lock()
	defer mutex.Unlock()
	if diff := cmp.Diff(map[string]int{"disk1": 2, "disk2": len(paths["disk2"])}, asked); diff != "" {
		t.Errorf("questions to the owner by disk (-want +got):\n%s", diff)
	}
}

// TestLongestWay sends a request through the largest possible number of locations, and follows nginx's internal
// redirects. The copy in memory is too old and cannot be renewed. The owner answers the lookup, but not the request to
// fetch the object. The stand-in does not answer the lookup. The key's disk is gone. The other disk has an expired copy
// that may not be served stale, and the gateway does not renew this copy. With slices, the origin then sends a response
// that cannot be fetched in slices, and the copy of the whole object has expired too.
func TestLongestWay(t *testing.T) {
	t.Parallel()
	way := []string{"@renewing", "@owner", "@fetch_from_owner", "@stand_in", "@disk", "@other_disk", "@waiting"}
	for name, tt := range map[string]struct {
		policy string
		// breaks are the gateway's locations that close the connection.
		breaks []string
		// stored are the beginnings of keys, before the URL. The copies of these keys expire one after another. answers are
		// the values of X-Cache after each step.
		stored, answers []string
		end             []string
	}{
		"whole": {
			"", []string{"@expired", "@patient"}, []string{""}, []string{"UNCACHED"}, []string{"@uncached"},
		},
		"slices": {
			"  cache: {slice: {size: 1Mi}}\n",
			[]string{"@expired"},
			[]string{"bytes=0-1048575 ", ""},
			[]string{"HIT", "UNCACHED"},
			[]string{"@whole", "@uncached_again"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lookup := func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(fmt.Sprint(r.Context().Value(http.LocalAddrContextKey)), "127.0.1.1:") { // the stand-in
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				if r.Header.Get("X-CacheNode-Ask") != "copy" {
					w.WriteHeader(470)
					return
				}
				w.Header().Set("X-Accel-Expires", "1")
				w.Header().Set("Content-Length", fmt.Sprint(len(r.URL.Path)+3000))
				_, _ = io.WriteString(w, r.URL.Path+strings.Repeat(".", 3000))
			}
			var fetched atomic.Int64
			fetch := func(http.ResponseWriter, *http.Request) {
				fetched.Add(1)
				panic(http.ErrAbortHandler) // the connection breaks off
			}
			const renewal = "location = /.cachenode-renew {"
			replace := []string{
				renewal, renewal + " return 500;", "error_log stderr warn;", "error_log stderr debug;",
				"error_log stderr crit;", "error_log stderr debug;", "error_log /dev/null crit;", "",
			}
			for _, location := range tt.breaks {
				begins := "location " + location + " {"
				replace = append(replace, begins, begins+" return 444;")
			}
			p, config := fakePods(t,
				fastSharded(nginxtest.MemoryTier("minUses: 1")+tt.policy),
				http.HandlerFunc(lookup), http.HandlerFunc(fetch), replace...)
			path := owned(t, "/object", 2, 1, 1)[0]
			becomes(t, "memory HIT", func() string { return how(p.get(t, 0, path)) })
			tag := `"1"`
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Cache-Control", "max-age=600, must-revalidate")
				w.Header().Set("ETag", tag)
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(path+strings.Repeat(".", 3000)))
				return true
			})
			key := "http://www.example.com" + path
			must(t, os.RemoveAll(p.nginx[0].Root+layout.CacheDir(config.Plan.Tree().Owner([]byte(key)))))
			becomes(t, "none HIT", func() string { return how(p.get(t, 0, path)) })
			p.locked(func() { tag = `W/"2"` })
			for i, stored := range tt.stored {
				expire(t, p.nginx[0], stored+key, "disk1", "disk2")
				becomes(t, "none "+tt.answers[i], func() string { return how(p.get(t, 0, path)) })
			}
			want := slices.Concat(way, tt.end)
			if diff := cmp.Diff(want, longestWay(p.nginx[0].Log(), path)); diff != "" {
				t.Errorf("internal redirects (-want +got):\n%s", diff)
			}
			if fetched.Load() == 0 {
				t.Error("the owner was not asked to fetch")
			}
		})
	}
}

// longestWay returns the locations to which nginx redirected a request for the path, according to the debug log. If
// there are several such requests, it returns the longest list.
func longestWay(log, path string) (longest []string) {
	redirect := regexp.MustCompile(
		`\*(\d+) (?:using location: (\S+)|internal redirect:) "` + regexp.QuoteMeta(path) + `\?"`)
	begins := regexp.MustCompile(`\*(\d+) http request line:`)
	ways := map[string][]string{} // by connection
	for line := range strings.Lines(log) {
		if m := begins.FindStringSubmatch(line); m != nil {
			ways[m[1]] = nil
		} else if m := redirect.FindStringSubmatch(line); m != nil {
			ways[m[1]] = append(ways[m[1]], m[2])
			if len(ways[m[1]]) > len(longest) {
				longest = slices.Clone(ways[m[1]])
			}
		}
	}
	return longest
}

// TestPodWithoutDisks checks a pod whose disks are all out of use. It still passes requests on to the owners of their
// keys, and stand-ins answer for the keys of this pod.
func TestPodWithoutDisks(t *testing.T) {
	t.Parallel()
	p := newPods(t, 3, fastSharded(""), func(pod int, in *cache.Input, _ func(string, []byte)) {
		if pod == 0 {
			in.Facts.Failed = []string{"disk1", "disk2"}
		}
	})
	others, own := owned(t, "/others", 2, 1, 3), owned(t, "/own", 0, 1, 3)
	for _, path := range others {
		for i, want := range []string{"peer MISS", "peer HIT"} {
			if got := how(p.get(t, 0, path)); got != want {
				t.Errorf("request %d, %s through the pod without disks: %s, want %s", i, path, got, want)
			}
		}
	}
	for _, path := range own {
		for i, want := range []string{"standin MISS", "standin HIT"} {
			if got := how(p.get(t, 2, path)); got != want {
				t.Errorf("request %d, %s of the pod without disks: %s, want %s", i, path, got, want)
			}
		}
		if got := how(p.get(t, 0, path)); got != "none UNCACHED" {
			t.Errorf("%s through the pod without disks: %s", path, got)
		}
	}
}
