package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// scripted is an origin whose answer to each path is set by the test. "close" closes the connection, a number is a
// status, and any other text is the Cache-Control of an object.
type scripted struct {
	nginx  *nginxtest.Nginx
	client *http.Client

	mutex   sync.Mutex
	answers map[string]string
	asked   map[string]int
	// The test closes held when the origin may answer. If held is nil, the origin answers at once.
	held chan struct{}
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	s.asked[r.URL.Path]++
	held := s.held
	s.mutex.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}
	s.mutex.Lock()
	answer := s.answers[r.URL.Path]
	s.mutex.Unlock()
	if answer == "close" {
		panic(http.ErrAbortHandler)
	}
	if status, err := strconv.Atoi(answer); err == nil {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "status "+answer)
		return
	}
	if answer != "" {
		w.Header().Set("Cache-Control", answer)
	}
	_, _ = io.WriteString(w, "object of "+answer)
}

// startScripted does the same as start, but with a scripted origin. nginx waits for renewals as long as a test waits.
func startScripted(t *testing.T, changes ...func(*v1alpha1.CacheNodeSpec)) *scripted {
	t.Helper()
	return startScriptedEdited(t, patientRenewals, changes...)
}

func startScriptedEdited(
	t *testing.T, edit func(text string) string, changes ...func(*v1alpha1.CacheNodeSpec),
) *scripted {
	t.Helper()
	s := &scripted{answers: map[string]string{}, asked: map[string]int{}}
	s.nginx = startEdited(t, edit, s.ServeHTTP, changes...)
	s.client = s.nginx.Client()
	return s
}

// say sets the origin's answer to requests for a path.
func (s *scripted) say(path, answer string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answers[path] = answer
}

// requests returns the number of requests that the origin got for a path.
func (s *scripted) requests(path string) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.asked[path]
}

// get requests a path.
func (s *scripted) get(t *testing.T, path string) (*http.Response, string) {
	t.Helper()
	return ask(t, s.client, http.MethodGet, "http://127.0.0.1:8080"+path)
}

// store stores an object under a path, and makes it expire.
func (s *scripted) store(t *testing.T, path, control string) {
	t.Helper()
	s.say(path, control)
	if r, _ := s.get(t, path); r.Header.Get("X-Cache") != "MISS" {
		t.Fatalf("the first is a %s", r.Header.Get("X-Cache"))
	}
	expire(t, s.nginx, "http://www.example.com"+path)
}

// TestStaleIfError checks which objects that expired an hour ago are served if the origin fails.
func TestStaleIfError(t *testing.T) {
	t.Parallel()
	s := startScripted(t)
	for control, stale := range map[string]bool{
		"max-age=60":                      true,
		"max-age=60, stale-if-error=7200": true,
		"max-age=60, stale-if-error=60":   false,
		"max-age=60, stale-if-error=0":    false,
		"max-age=60, must-revalidate":     false,
		"max-age=60, proxy-revalidate":    false,
		"max-age=60, s-maxage=90":         false,
		"max-age=60, Must-Revalidate, ab": false,
	} {
		t.Run(control, func(t *testing.T) {
			t.Parallel()
			path := "/" + strings.NewReplacer(" ", "", ",", "/").Replace(control)
			s.store(t, path, control)
			for answer, status := range map[string]int{"close": 502, "500": 500, "502": 502, "503": 503, "504": 504} {
				s.say(path, answer)
				want := "status " + answer
				if stale {
					status, want = http.StatusOK, "object of "+control
				}
				r, body := s.get(t, path)
				if r.StatusCode != status || (answer != "close" && body != want) {
					t.Errorf("the origin answers %s: %d, %s, %q; want %d and %q",
						answer, r.StatusCode, r.Header.Get("X-Cache"), body, status, want)
				}
			}
		})
	}
}

// TestStaleIfErrorBehindMemory checks that a stale copy is still served with a memory tier. The mirror requests of the
// tier must not disturb the client's request.
func TestStaleIfErrorBehindMemory(t *testing.T) {
	t.Parallel()
	s := startScripted(t, inMemory)
	const path, control = "/object", "max-age=1"
	s.store(t, path, control)
	s.say(path, "500")
	for range 5 {
		if r, body := s.get(t, path); r.StatusCode != http.StatusOK || body != "object of "+control {
			t.Errorf("status %d, %s of %s, %q", r.StatusCode, r.Header.Get("X-Cache"), r.Header.Get("X-Cache-Disk"), body)
		}
	}
}

// inMemory adds a memory tier to a spec. Its copies outlive the test, like those of [nginxtest.MemoryTier].
func inMemory(spec *v1alpha1.CacheNodeSpec) {
	spec.MemoryTier.Enabled, spec.MemoryTier.Size = new(true), new(resource.MustParse("64Mi"))
	spec.MemoryTier.Inactive, spec.MemoryTier.MaxExtraAge = "10h", "10h"
	spec.MemoryTier.MinUses = new(int32(1))
}

// withdrawn are answers with which an origin withdraws an object. nginx stores none of them.
var withdrawn = []string{"403", "404", "410", "451", "no-store"}

// TestWithdrawn checks that no client gets an object that the origin has withdrawn and that expired longer ago than
// staleWhileRevalidate. This must hold even if many clients ask all the time and the origin's answer is not stored.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	s := startScripted(t, func(spec *v1alpha1.CacheNodeSpec) { spec.Cache.StaleWhileRevalidate = "1s" })
	for _, answer := range withdrawn {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			path := "/" + answer
			s.store(t, path, "max-age=60")
			s.say(path, answer)
			var clients sync.WaitGroup
			var old atomic.Int64
			var last atomic.Value
			for range 8 {
				clients.Go(func() {
					for range 40 {
						if r, body := s.get(t, path); body == "object of max-age=60" {
							old.Add(1)
							last.Store(r.Header.Get("X-Cache"))
						}
					}
				})
			}
			clients.Wait()
			if old.Load() > 0 {
				t.Errorf("%d requests got the old object, as %v", old.Load(), last.Load())
			}
		})
	}
}

// TestWithdrawnFromMemory does the same as TestWithdrawn for objects that are in memory when the origin withdraws them.
// nginx serves the old copy while it tries to renew it. The renewal fails because the disk has no fresh object, and
// nginx soon stops trying.
func TestWithdrawnFromMemory(t *testing.T) {
	t.Parallel()
	s := startScripted(t, inMemory, func(spec *v1alpha1.CacheNodeSpec) { spec.Cache.StaleWhileRevalidate = "1s" })
	for _, answer := range withdrawn {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			path := "/" + answer
			key := "http://www.example.com" + path
			s.say(path, "max-age=60") // an object with less than ten seconds would not be copied
			becomes(t, "HIT memory", func() string {
				r, _ := s.get(t, path)
				return place(r)
			})
			s.say(path, answer)
			expire(t, s.nginx, key)
			expireInMemory(t, s.nginx, key)
			const row = 100
			becomes(t, "no request gets the old object", func() string {
				old := map[string]int{}
				for range row {
					if r, body := s.get(t, path); body == "object of max-age=60" {
						old[place(r)]++
					}
				}
				if len(old) > 0 {
					return fmt.Sprintf("of %d requests in a row, %v get the old object", row, old)
				}
				return "no request gets the old object"
			})
		})
	}
}

// TestHerd checks that 200 clients that request one object at the same time cause only one request to the origin.
func TestHerd(t *testing.T) {
	t.Parallel()
	for tier, changes := range map[string][]func(*v1alpha1.CacheNodeSpec){"disks alone": nil, "memory tier": {inMemory}} {
		for control, isNew := range map[string]bool{
			"max-age=60, public":          true,
			"max-age=60":                  false, // there is a stale copy that may be served
			"max-age=60, must-revalidate": false, // there is a stale copy that may not be served
		} {
			t.Run(tier+", "+control, func(t *testing.T) {
				t.Parallel()
				const clients, path = 200, "/herd"
				s := startScriptedEdited(t, keptRenewals, changes...)
				s.client.Transport.(*http.Transport).MaxIdleConnsPerHost = clients
				if !isNew {
					s.store(t, path, control)
				}
				before, released := s.requests(path), make(chan struct{})
				s.held = released
				s.say(path, "max-age=90")
				var all sync.WaitGroup
				for range clients {
					all.Go(func() {
						if r, _ := s.get(t, path); r.StatusCode != http.StatusOK {
							t.Errorf("status %d", r.StatusCode)
						}
					})
				}
				// A client that arrived after the renewal could have opened the old file before nginx replaced it, and
				// would cause one more request. So the test waits until the requests of all clients are in nginx. A
				// request for a new object waits in one server of nginx. A request for a renewal passes through three,
				// and counts in each.
				servers := 3
				if isNew {
					servers = 1
				}
				occupied(t, s.nginx, clients*servers+1) // the request to the origin has one server more
				close(released)
				all.Wait()
				if got := s.requests(path) - before; got != 1 {
					t.Errorf("the origin was asked %d times", got)
				}
			})
		}
	}
}

// expireInMemory does the same as expire for the copy of an object in memory.
func expireInMemory(t *testing.T, n *nginxtest.Nginx, key string) {
	t.Helper()
	expireFiles(t, n.CachedIn(key, layout.MemoryTierCache))
}
