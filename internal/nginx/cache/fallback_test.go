package cache_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

// sliced is an object of three slices of 1 MiB.
var sliced = strings.Repeat("0123456789abcdef", 3<<16)

// holder is an origin that answers two kinds of requests only when the test says so: those for paths that begin with
// /held, and those for the second slice of an object.
type holder struct {
	asked         chan string
	answer, slice chan struct{}
}

func newHolder() *holder {
	return &holder{make(chan string, 100), make(chan struct{}), make(chan struct{})}
}

func (h *holder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Cachenode") {
			http.Error(w, "the origin gets "+name, http.StatusBadRequest)
			return
		}
	}
	if strings.HasPrefix(r.URL.Path, "/redirected") {
		w.Header().Set("X-Accel-Redirect", "/held"+r.URL.Path)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/held") {
		h.asked <- r.URL.Path
		<-h.answer
	}
	if strings.HasPrefix(r.Header.Get("Range"), "bytes=1048576-") {
		h.asked <- r.URL.Path
		<-h.slice
	}
	w.Header().Set("Cache-Control", "max-age=600")
	w.Header().Set("ETag", `"1"`)
	expired := fmt.Sprintf("@%d", nginxtest.Now().Unix()-1)
	body := r.URL.Path
	switch {
	case strings.HasPrefix(r.URL.Path, "/sliced"):
		body = sliced
	case strings.HasPrefix(r.URL.Path, "/expired"): // the response has expired when it is stored
		w.Header().Set("Cache-Control", "stale-if-error=600")
		w.Header().Set("X-Accel-Expires", expired)
	case strings.HasPrefix(r.URL.Path, "/strict"):
		w.Header().Set("Cache-Control", "must-revalidate")
		w.Header().Set("X-Accel-Expires", expired)
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
}

// hold makes clients request paths, and waits until the origin has got each request. It returns a channel for the
// statuses of the responses.
func (h *holder) hold(t *testing.T, client *http.Client, paths ...string) (statuses chan string) {
	t.Helper()
	statuses = make(chan string, len(paths))
	for _, path := range paths {
		go func() { statuses <- outcome(t, client, http.MethodGet, path) }()
		await.True(t, "the origin is not asked for "+path, func() bool {
			select {
			case <-h.asked:
			case got := <-statuses:
				t.Fatalf("%s is answered with %s", path, got)
			default:
				return false
			}
			return true
		})
	}
	return statuses
}

// release makes the origin answer, and checks that each waiting request gets the wanted response.
func (h *holder) release(t *testing.T, want string, statuses ...chan string) {
	t.Helper()
	close(h.answer)
	for _, s := range statuses {
		for range cap(s) {
			if got := <-s; got != want {
				t.Errorf("a request that was under way: %s, want %s", got, want)
			}
		}
	}
}

// outcome returns the status of a response, its X-Cache-Hop and X-Cache, and its Retry-After.
func outcome(t *testing.T, client *http.Client, method, path string) string {
	r, _ := ask(t, client, method, "http://127.0.0.1:8080"+path, "X-CacheNode-Fallback: 1")
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Cachenode") || strings.HasPrefix(name, "X-Accel") {
			t.Errorf("%s: the client gets %s: %q", path, name, r.Header.Get(name))
		}
	}
	how := strings.Join([]string{r.Header.Get("X-Cache-Hop"), r.Header.Get("X-Cache"), r.Header.Get("Retry-After")}, " ")
	return strings.Join(strings.Fields(fmt.Sprint(r.StatusCode, " ", how)), " ")
}

// onDisk1 returns paths whose keys are on the first disk.
func onDisk1(config cache.Config, prefix string, count int) (paths []string) {
	for i := 0; len(paths) < count; i++ {
		path := fmt.Sprintf("%s/%d", prefix, i)
		if !config.Cached || config.Plan.Tree().Owner([]byte("http://www.example.com"+path)) == "disk1" {
			paths = append(paths, path)
		}
	}
	return paths
}

// fallingBack returns an nginx with an origin. Two requests may fall back at the same time. more is added to the spec.
func fallingBack(t *testing.T, more string, changes ...func(*cache.Input)) (*nginxtest.Nginx, *holder, cache.Config) {
	t.Helper()
	n, origin := nginxtest.New(t), newHolder()
	in := decode(t, []byte(threeDisks+more))
	in.Spec.Origin.FallbackConcurrency = new(int32(2))
	for _, change := range changes {
		change(&in)
	}
	config, err := cache.Render(in)
	must(t, err)
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	n.Mkdir(layout.MemoryTierDir)
	n.Serve("127.0.0.1:9000", origin)
	n.Start()
	return n, origin, config
}

// lose removes the cache folders of disks, so that the disks look dead to nginx.
func lose(t *testing.T, n *nginxtest.Nginx, disks ...string) {
	t.Helper()
	for _, disk := range disks {
		must(t, os.RemoveAll(n.Root+layout.CacheDir(disk)))
	}
}

// TestFallbackConcurrency checks the limit on requests that fall back. Requests beyond the limit are rejected, reported
// and not stored. Requests that bypass the caches do not count, and requests that another disk answers do not count
// either.
func TestFallbackConcurrency(t *testing.T) {
	t.Parallel()
	all := []string{"disk1", "disk2", "disk3"}
	for name, tt := range map[string]struct {
		lost                []string
		served, get, head   string
		slices, withRetries bool
	}{
		"a disk is lost":            {all[:1], "MISS", "MISS", "BYPASS", false, true},
		"a disk is lost, slices":    {all[:1], "MISS", "UNCACHED", "BYPASS", true, true},
		"all disks are lost":        {all, "UNCACHED", "UNCACHED", "UNCACHED", false, true},
		"all disks are lost, once":  {all, "UNCACHED", "UNCACHED", "UNCACHED", false, false},
		"no disk is in use":         {nil, "UNCACHED", "UNCACHED", "UNCACHED", false, true},
		"no disk is in use, once":   {nil, "UNCACHED", "UNCACHED", "UNCACHED", false, false},
		"no disk is in use, slices": {nil, "UNCACHED", "UNCACHED", "UNCACHED", true, true},
	} {
		for _, limit := range []string{"", "  listen: {maxConnectionsPerClient: 9}\n"} {
			t.Run(name+limit, func(t *testing.T) {
				t.Parallel()
				policy := "valid: [{status: [200, 503], for: 1h}]"
				if tt.slices {
					policy += ", slice: {size: 1Mi}"
				}
				n, origin, config := fallingBack(t, "  cache: {"+policy+"}\n"+limit, func(in *cache.Input) {
					if !tt.withRetries {
						in.Spec.Origin.Retries.Tries = new(int32(1))
					}
					if tt.lost == nil {
						in.Facts.Failed = all
					}
				})
				lose(t, n, tt.lost...)
				client, stored := n.Client(), onDisk1(config, "/stored", 1)[0]
				outcome(t, client, http.MethodGet, stored)
				held, rejected := onDisk1(config, "/held", 2), onDisk1(config, "/rejected", 1)[0]
				statuses := origin.hold(t, client, held...)
				for method, how := range map[string]string{http.MethodGet: tt.get, http.MethodHead: tt.head} {
					if got := outcome(t, client, method, rejected); got != "503 "+how+" 1" {
						t.Errorf("%s beyond the bound: %s, want 503 %s 1", method, got, how)
					}
				}
				if got := outcome(t, client, http.MethodPost, rejected); got != "200 BYPASS" {
					t.Errorf("a request past the caches: %s", got)
				}
				if tt.served == "MISS" {
					if got := outcome(t, client, http.MethodGet, stored); got != "200 HIT" {
						t.Errorf("an object on the other disk: %s", got)
					}
				}
				becomes(t, "2", func() string { return fmt.Sprint(rejections(n)) })
				origin.release(t, "200 "+tt.served, statuses)
				becomes(t, "200 "+tt.served, func() string { return outcome(t, client, http.MethodGet, rejected) })
			})
		}
	}
}

// TestFallbacksOfRedirects checks that a request still counts when the origin redirects it.
func TestFallbacksOfRedirects(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]string{
		"disks": "", "a memory tier": nginxtest.MemoryTier("minUses: 1"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, origin, config := fallingBack(t, lines)
			lose(t, n, "disk1", "disk2", "disk3")
			statuses := origin.hold(t, n.Client(), onDisk1(config, "/redirected", 2)...)
			if got := outcome(t, n.Client(), http.MethodGet, onDisk1(config, "/rejected", 1)[0]); got != "503 UNCACHED 1" {
				t.Errorf("beyond the bound: %s, want 503 UNCACHED 1", got)
			}
			origin.release(t, "200 BYPASS", statuses)
		})
	}
}

// TestWithoutGateway checks that a request reaches the origin if there is no gateway, as in a worker that shuts down.
func TestWithoutGateway(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]string{
		"disks": "", "slices": "  cache: {slice: {size: 1Mi}}\n",
		"a memory tier": nginxtest.MemoryTier("minUses: 1"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _, _ := fallingBack(t, lines)
			must(t, os.Remove(n.Root+layout.GatewaySocket))
			for range 3 { // the origin refuses requests with headers for the gateway
				if got := outcome(t, n.Client(), http.MethodGet, "/page"); got != "200 UNCACHED" {
					t.Errorf("without a gateway: %s, want 200 UNCACHED", got)
				}
			}
		})
	}
}

// rejections returns the number of reported rejections whose tag shows that the request fell back.
func rejections(n *nginxtest.Nginx) (count int) {
	for _, report := range n.Reports() {
		certain := strings.Contains(report, agentapi.TagUncached+":") || strings.Contains(report, agentapi.TagOtherDisk+":")
		if certain && strings.HasSuffix(report, " REJECTED") {
			count++
		}
	}
	return count
}

// TestRejectedWithCopy checks that a client beyond the limit gets an expired copy from another disk, if this copy may
// be served stale.
func TestRejectedWithCopy(t *testing.T) {
	t.Parallel()
	for _, background := range []bool{false, true} {
		t.Run(fmt.Sprintf("in background %t", background), func(t *testing.T) {
			t.Parallel()
			n, origin, config := fallingBack(t, "", func(in *cache.Input) { in.Spec.Cache.BackgroundUpdate = &background })
			lose(t, n, "disk1")
			client := n.Client()
			stale, strict := onDisk1(config, "/expired", 1)[0], onDisk1(config, "/strict", 1)[0]
			outcome(t, client, http.MethodGet, stale)
			outcome(t, client, http.MethodGet, strict)
			n.Cached("http://www.example.com"+stale, "disk2")
			n.Cached("http://www.example.com"+strict, "disk2")
			statuses := origin.hold(t, client, onDisk1(config, "/held", 2)...)
			if got := outcome(t, client, http.MethodGet, stale); got != "200 STALE" {
				t.Errorf("what may be served stale: %s, want 200 STALE", got)
			}
			if got := outcome(t, client, http.MethodGet, strict); got != "503 UNCACHED 1" {
				t.Errorf("what may not be served stale: %s, want 503 UNCACHED 1", got)
			}
			origin.release(t, "200 MISS", statuses)
		})
	}
}

// TestRejectionCutsNothing checks that the later slices of a response are not rejected, even beyond the limit.
func TestRejectionCutsNothing(t *testing.T) {
	t.Parallel()
	n, origin, config := fallingBack(t, "  cache: {slice: {size: 1Mi}}\n")
	lose(t, n, "disk1")
	client, path := n.Client(), onDisk1(config, "/sliced", 1)[0]
	body := make(chan int)
	go func() {
		_, content := get(t, client, "www.example.com", path)
		body <- len(content)
	}()
	<-origin.asked // for the second slice
	statuses := origin.hold(t, client, onDisk1(config, "/held", 2)...)
	if got := outcome(t, client, http.MethodGet, onDisk1(config, "/rejected", 1)[0]); !strings.HasPrefix(got, "503") {
		t.Errorf("the bound is not reached: %s", got)
	}
	close(origin.slice)
	if got := <-body; got != len(sliced) {
		t.Errorf("the client gets %d bytes, want %d", got, len(sliced))
	}
	origin.release(t, "200 MISS", statuses)
}

// TestFallbacksOfFullQueue checks that the limit applies to a disk without a free thread: while the origin has the
// maximum number of requests that fall back, it gets no other request.
func TestFallbacksOfFullQueue(t *testing.T) {
	t.Parallel()
	var filled atomic.Bool
	var atOrigin atomic.Int64
	answer := make(chan struct{})
	n, paths := withoutQueue(t, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if filled.Load() {
			atOrigin.Add(1)
			<-answer
		}
		_, _ = fmt.Fprintf(w, "%s of %s", r.URL.Path, r.Host)
	}))
	client, rejections := n.Client(), make(chan string)
	for _, path := range paths {
		becomes(t, "HIT", func() string {
			status, err := fetch(client, path)
			must(t, err)
			return status
		})
	}
	filled.Store(true)
	for i := range 32 {
		go func() {
			for j := i; ; j++ {
				status, err := fetch(client, paths[j%len(paths)])
				if err != nil {
					status = err.Error()
				}
				rejected := rejections
				if status == "HIT" || status == "broken off" {
					rejected = nil
				}
				select {
				case <-answer:
					return
				case rejected <- status:
				default:
				}
			}
		}()
	}
	for range 20 {
		if got := <-rejections; !strings.Contains(got, ": 503 ") {
			t.Errorf("beyond the bound: %s", got)
		}
	}
	if got := atOrigin.Load(); got != 1 {
		t.Errorf("the origin has %d requests, want 1", got)
	}
	close(answer)
}

// TestFallbacksOverHops checks that a pod counts the requests of its clients and of other pods together, and that a
// rejection by the owner reaches the client.
func TestFallbacksOverHops(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]string{"": "", "clients too": "  listen: {maxConnectionsPerClient: 9}\n"} {
		for media, spec := range map[string]func(string) string{"hard disks": sharded, "SSD": fastSharded} {
			t.Run(media+" "+name, func(t *testing.T) {
				t.Parallel()
				origin := newHolder()
				yaml := strings.Replace(spec("  memoryTier: {enabled: false}\n"+limit), "port: 9000", "port: 9001", 1)
				p := newPods(t, 2, yaml, func(_ int, in *cache.Input, _ func(string, []byte)) {
					in.Spec.Origin.FallbackConcurrency = new(int32(2))
				})
				for _, n := range p.nginx {
					n.Serve("127.0.0.1:9001", origin)
				}
				lose(t, p.nginx[1], "disk1", "disk2")
				var held []string
				for i := range 3 {
					held = append(held, ownedBySecond(t, fmt.Sprintf("/held%d", i)))
				}
				one := origin.hold(t, p.clients[0], held[0])
				two := origin.hold(t, p.clients[1], held[1])
				for pod, want := range []string{"503 peer UNCACHED 1", "503 none UNCACHED 1"} {
					if got := outcome(t, p.clients[pod], http.MethodGet, held[2]); got != want {
						t.Errorf("beyond the bound, through pod %d: %s, want %s", pod, got, want)
					}
				}
				// The first pod's disks work.
				if got := outcome(t, p.clients[1], http.MethodGet, ownedBy(t, 0, "/own")); got != "200 peer MISS" {
					t.Errorf("an object of the other pod: %s", got)
				}
				close(origin.answer)
				if got := <-one; got != "200 peer UNCACHED" {
					t.Errorf("over the hop: %s", got)
				}
				if got := <-two; got != "200 none UNCACHED" {
					t.Errorf("from the client: %s", got)
				}
			})
		}
	}
}
