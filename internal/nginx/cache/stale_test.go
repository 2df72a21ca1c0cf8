package cache_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// scripted is an origin that answers as the test says: "close" closes the connection, a number is a status, and
// anything else is the Cache-Control of an object.
type scripted struct {
	answer atomic.Value
	count  atomic.Int64
	delay  time.Duration
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.count.Add(1)
	time.Sleep(s.delay)
	answer := s.answer.Load().(string)
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

// startScripted is startWith for a scripted origin.
func startScripted(t *testing.T, changes ...func(*v1alpha1.CacheNodeSpec)) (*scripted, *http.Client) {
	t.Helper()
	s := &scripted{}
	return s, startWith(t, s.ServeHTTP, changes...)
}

// store has an object stored under a path, and waits until it has expired.
func (s *scripted) store(t *testing.T, client *http.Client, path, control string) {
	t.Helper()
	s.answer.Store(control)
	if r, _ := ask(t, client, http.MethodGet, example+path); r.Header.Get("X-Cache") != "MISS" {
		t.Fatalf("the first is a %s", r.Header.Get("X-Cache"))
	}
	time.Sleep(2100 * time.Millisecond) // nginx's clock has whole seconds
}

func TestStaleIfError(t *testing.T) {
	s, client := startScripted(t)
	for control, stale := range map[string]bool{
		"max-age=1":                      true,
		"max-age=1, stale-if-error=60":   true,
		"max-age=1, stale-if-error=0":    false,
		"max-age=1, must-revalidate":     false,
		"max-age=1, proxy-revalidate":    false,
		"max-age=60, s-maxage=1":         false,
		"max-age=1, Must-Revalidate, ab": false,
	} {
		t.Run(control, func(t *testing.T) {
			path := "/" + strings.NewReplacer(" ", "", ",", "/").Replace(control)
			s.store(t, client, path, control)
			for answer, status := range map[string]int{"close": 502, "500": 500, "502": 502, "503": 503, "504": 504} {
				s.answer.Store(answer)
				want := "status " + answer
				if stale {
					status, want = http.StatusOK, "object of "+control
				}
				r, body := ask(t, client, http.MethodGet, example+path)
				if r.StatusCode != status || (answer != "close" && body != want) {
					t.Errorf("the origin answers %s: %d, %s, %q; want %d and %q",
						answer, r.StatusCode, r.Header.Get("X-Cache"), body, status, want)
				}
			}
		})
	}
}

// TestStaleIfErrorBehindMemory checks that the mirror requests for the memory tier take nothing from the request of the
// client.
func TestStaleIfErrorBehindMemory(t *testing.T) {
	s, client := startScripted(t, inMemory)
	const control = "max-age=1"
	s.store(t, client, "", control)
	s.answer.Store("500")
	for range 5 {
		if r, body := ask(t, client, http.MethodGet, example); r.StatusCode != http.StatusOK || body != "object of "+control {
			t.Errorf("status %d, %s of %s, %q", r.StatusCode, r.Header.Get("X-Cache"), r.Header.Get("X-Cache-Disk"), body)
		}
	}
}

// inMemory gives a spec a memory tier.
func inMemory(spec *v1alpha1.CacheNodeSpec) {
	spec.MemoryTier.Enabled, spec.MemoryTier.Size = new(true), new(resource.MustParse("64Mi"))
	spec.MemoryTier.MinUses, spec.MemoryTier.MaxExtraAge = new(int32(1)), "30s"
}

// TestWithdrawn checks that clients get an object no longer than staleWhileRevalidate after its end if the origin says
// that it is gone, even if many ask all the time and the answer is not stored.
func TestWithdrawn(t *testing.T) {
	s, client := startScripted(t, func(spec *v1alpha1.CacheNodeSpec) { spec.Cache.StaleWhileRevalidate = "1s" })
	for _, answer := range []string{"403", "404", "410", "451", "no-store"} {
		s.store(t, client, "/"+answer, "max-age=1")
		s.answer.Store(answer)
		var clients sync.WaitGroup
		var old atomic.Int64
		var last atomic.Value
		end := time.Now().Add(3 * time.Second)
		for range 8 {
			clients.Go(func() {
				for time.Now().Before(end) {
					r, body := ask(t, client, http.MethodGet, example+"/"+answer)
					if body == "object of max-age=1" && time.Now().After(end.Add(-time.Second)) {
						old.Add(1)
						last.Store(r.Header.Get("X-Cache"))
					}
				}
			})
		}
		clients.Wait()
		if old.Load() > 0 {
			t.Errorf("the origin answers %s, and %d requests got the old object, as %v", answer, old.Load(), last.Load())
		}
	}
}

// TestWithdrawnFromMemory is TestWithdrawn for objects that are in memory when the origin withdraws them.
func TestWithdrawnFromMemory(t *testing.T) {
	var gone atomic.Bool
	client := startWith(t, func(w http.ResponseWriter, r *http.Request) {
		answer := strings.TrimPrefix(r.URL.Path, "/object/")
		switch status, err := strconv.Atoi(answer); {
		case !gone.Load():
			w.Header().Set("Cache-Control", "max-age=10") // less is not copied
			_, _ = io.WriteString(w, "old")
		case err == nil:
			w.WriteHeader(status)
		default:
			w.Header().Set("Cache-Control", answer)
			_, _ = io.WriteString(w, "new")
		}
	}, inMemory, func(spec *v1alpha1.CacheNodeSpec) {
		spec.MemoryTier.MaxExtraAge, spec.Cache.StaleWhileRevalidate = "1s", "1s"
	})
	answers := []string{"403", "404", "410", "451", "no-store"}
	from := func(answer string) string {
		r, body := ask(t, client, http.MethodGet, example+"/"+answer)
		return place(r) + " " + body
	}
	inMemory := func(answer string) bool { return from(answer) == "HIT memory old" }
	for _, answer := range answers {
		for end := time.Now().Add(time.Minute); !inMemory(answer); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s does not get into memory", answer)
			}
		}
	}
	gone.Store(true)
	begin, last := time.Now(), time.Now() // when the last old object came
	for time.Since(last) < 5*time.Second {
		for _, answer := range answers {
			if got := from(answer); strings.HasSuffix(got, " old") {
				last = time.Now()
			}
		}
		if time.Since(begin) > 40*time.Second {
			t.Fatal("old objects are served for ever")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestHerd checks that 200 clients cause one request to the origin.
func TestHerd(t *testing.T) {
	t.Run("disks alone", func(t *testing.T) { testHerd(t) })
	t.Run("memory tier", func(t *testing.T) { testHerd(t, inMemory) })
}

func testHerd(t *testing.T, changes ...func(*v1alpha1.CacheNodeSpec)) {
	s, client := startScripted(t, changes...)
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = 200
	for control, first := range map[string]bool{
		"max-age=1, public":          true,  // new
		"max-age=1":                  false, // there is a stale copy, which may be served
		"max-age=1, must-revalidate": false, // there is one, which may not
	} {
		t.Run(control, func(t *testing.T) {
			path := "/herd/" + strings.NewReplacer(" ", "", ",", "/").Replace(control)
			s.delay = 0
			s.answer.Store(control)
			if !first {
				s.store(t, client, path, control)
			}
			s.delay = 700 * time.Millisecond
			s.answer.Store("max-age=60")
			before := s.count.Load()
			var clients sync.WaitGroup
			for range 200 {
				clients.Go(func() {
					if r, _ := ask(t, client, http.MethodGet, example+path); r.StatusCode != http.StatusOK {
						t.Errorf("status %d", r.StatusCode)
					}
				})
			}
			clients.Wait()
			if got := s.count.Load() - before; got != 1 {
				t.Errorf("the origin was asked %d times", got)
			}
		})
	}
}
