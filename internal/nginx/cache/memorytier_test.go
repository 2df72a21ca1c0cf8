package cache_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

func TestAtMost(t *testing.T) {
	check := func(n, m int64) {
		t.Helper()
		if got := regexp.MustCompile("^" + cache.AtMost(n) + "$").MatchString(fmt.Sprint(m)); got != (m <= n) {
			t.Errorf("%d is at most %d: got %t; the expression is %s", m, n, got, cache.AtMost(n))
		}
	}
	for n := range int64(130) {
		for m := range int64(1200) {
			check(n, m)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		n := random.Int64N(1 << random.IntN(40))
		for _, m := range []int64{n - 1, n, n + 1, random.Int64N(1 << random.IntN(41))} {
			check(n, max(m, 0))
		}
	}
}

// ask sends a request for the host that threeDisks serves.
func ask(t *testing.T, client *http.Client, method, url string, headers ...string) (r *http.Response, body string) {
	t.Helper()
	return send(t, client, method, "www.example.com", url, headers...)
}

func place(r *http.Response) string {
	return r.Header.Get("X-Cache") + " " + strings.TrimRight(r.Header.Get("X-Cache-Disk"), "123")
}

// threeDisksWithTier prepares nginx's files for threeDisks with a memory tier, which is given in YAML.
func threeDisksWithTier(t *testing.T, tier string) (*nginxtest.Nginx, cache.Config) {
	t.Helper()
	n := nginxtest.New(t)
	config, err := cache.Render(decode(t, []byte(threeDisks+"  memoryTier: "+tier+"\n")))
	must(t, err)
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	n.Mkdir(layout.MemoryTierDir)
	return n, config
}

// TestMemoryTier checks that hot objects and no others are served from memory, as they are on the disks, and for a
// bounded time.
func TestMemoryTier(t *testing.T) {
	n, _ := threeDisksWithTier(t, "{enabled: true, size: 64Mi, minUses: 2, maxExtraAge: 2s, maxObjectSize: 2000}")
	var count, version atomic.Int64
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Accept-Ranges", "bytes")
		body := fmt.Sprintf("%s %s version %d, in %q. %s",
			r.Method, r.URL.Path, version.Load(), r.Header.Get("Accept-Encoding"), strings.Repeat("x", 1000))
		switch {
		case strings.HasPrefix(r.URL.Path, "/private"):
			w.Header().Set("Cache-Control", "private")
		case strings.HasPrefix(r.URL.Path, "/varied"):
			w.Header().Set("Vary", "Accept-Encoding")
		case strings.HasPrefix(r.URL.Path, "/large"):
			body += strings.Repeat("y", 2000)
		case strings.HasPrefix(r.URL.Path, "/missing"):
			w.WriteHeader(http.StatusNotFound)
		case strings.HasPrefix(r.URL.Path, "/chunked"):
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, body)
	}))
	n.Start()
	client := n.Client()
	const base = "http://127.0.0.1:8080"
	// often sends eight requests for a path, which must get the same body, and returns where the responses came from.
	often := func(t *testing.T, path string, headers ...string) (places []string) {
		t.Helper()
		var bodies []string
		for range 8 {
			r, body := ask(t, client, http.MethodGet, base+path, headers...)
			places, bodies = append(places, place(r)), append(bodies, body)
			if body != bodies[0] {
				t.Errorf("%s: %q, then %q", path, bodies[0], body)
			}
			time.Sleep(20 * time.Millisecond)
		}
		return places
	}
	last := func(places []string) string { return places[len(places)-1] }

	t.Run("what is asked for often is served from memory", func(t *testing.T) {
		before := count.Load()
		places := often(t, "/hot")
		if places[0] != "MISS disk" || places[1] != "HIT disk" || last(places) != "HIT memory" {
			t.Errorf("it came from %q", places)
		}
		if got := count.Load() - before; got != 1 {
			t.Errorf("the origin was asked %d times", got)
		}
		r, body := ask(t, client, http.MethodGet, base+"/hot", "Range: bytes=0-8")
		if place(r) != "HIT memory" || r.StatusCode != http.StatusPartialContent || body != "GET /hot " {
			t.Errorf("a range: %s %d %q", place(r), r.StatusCode, body)
		}
		r, body = ask(t, client, http.MethodHead, base+"/hot")
		if place(r) != "HIT memory" || body != "" || r.ContentLength < 1000 {
			t.Errorf("HEAD: %s, %d bytes", place(r), r.ContentLength)
		}
		if r, _ = ask(t, client, http.MethodGet, base+"/hot", "Authorization: Bearer x"); place(r) != "BYPASS disk" {
			t.Errorf("with credentials: %s", place(r))
		}
		if r, _ = ask(t, client, http.MethodPost, base+"/hot"); place(r) != "BYPASS disk" {
			t.Errorf("POST: %s", place(r))
		}
	})
	t.Run("no response is held back in its socket", func(t *testing.T) {
		// The kernel would hold the end of a corked response for 200 ms.
		var waits []time.Duration
		for i := range 21 {
			cold := fmt.Sprintf("%s/cold-%d", base, i)
			ask(t, client, http.MethodGet, cold)
			ask(t, client, http.MethodGet, base+"/hot")
			begun := time.Now()
			if r, _ := ask(t, client, http.MethodGet, cold); place(r) != "HIT disk" {
				t.Errorf("it came from %q", place(r))
			}
			waits = append(waits, time.Since(begun))
		}
		if fastest := slices.Min(waits); fastest > 150*time.Millisecond { // a busy machine holds up some as well
			t.Errorf("what comes from a disk on the connection of what came from memory takes %s at least", fastest)
		}
	})
	for name, path := range map[string]string{
		"what is too large": "/large", "what must not be cached": "/private", "what has no length": "/chunked",
		"an error": "/missing",
	} {
		t.Run(name+" stays out of it", func(t *testing.T) {
			before := count.Load()
			places := often(t, path)
			if strings.Contains(strings.Join(places, " "), "memory") {
				t.Errorf("it came from %q", places)
			}
			if got := count.Load() - before; got != 1 && (path != "/private" || got != 8) {
				t.Errorf("the origin was asked %d times for %q", got, places)
			}
		})
	}
	t.Run("what finds no room is not copied with each request", func(t *testing.T) {
		// nginx counts the requests of clients, those to the promoter, and those for the copies alike.
		requests := func() int {
			_, body := ask(t, client, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(layout.PrivatePort)+"/stub_status")
			fields := strings.Fields(body)
			if len(fields) < 10 {
				t.Fatalf("stub_status says %q", body)
			}
			n, err := strconv.Atoi(fields[9])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := requests()
		for range 100 {
			ask(t, client, http.MethodGet, base+"/large")
		}
		// 100 from the client, at most 100 to the promoter, and three copies. Without a bound it would be 300.
		if got := requests() - before; got < 190 || got > 225 {
			t.Errorf("nginx had %d requests for 100 of a client, want some 205", got)
		}
	})
	t.Run("no request waits while an expired copy is renewed from the disk", func(t *testing.T) {
		often(t, "/copied")
		before := count.Load()
		const concurrent = 8
		var clients sync.WaitGroup
		var mutex sync.Mutex
		seen := map[string]int{}
		for range concurrent {
			clients.Go(func() {
				renewed := false // the copy has expired, and the next one answers
				for end := time.Now().Add(time.Minute); !renewed && time.Now().Before(end); {
					r, _ := ask(t, client, http.MethodGet, base+"/copied")
					mutex.Lock()
					seen[place(r)]++
					renewed = seen["UPDATING memory"] > 0 && place(r) == "HIT memory"
					mutex.Unlock()
				}
			})
		}
		clients.Wait()
		all := 0
		for _, times := range seen {
			all += times
		}
		for where, times := range seen {
			switch where {
			case "HIT memory", "UPDATING memory":
				continue
			// The copy is expired for one worker, and not yet for the promoter, whose clock is a moment behind; on a busy
			// machine, that is a long one. Such an answer does not wait either.
			case "HIT disk":
				if times <= max(all/3, concurrent) {
					continue
				}
			}
			t.Errorf("it came from %v", seen)
		}
		if seen["UPDATING memory"] == 0 || count.Load() != before {
			t.Errorf("it came from %v; the origin was asked %d times", seen, count.Load()-before)
		}
	})
	for name, request := range map[string]struct {
		method, content string
		headers         []string
		status          int
	}{
		"HEAD":    {http.MethodHead, "", nil, http.StatusOK},
		"a range": {http.MethodGet, "GET /end", []string{"Range: bytes=0-7"}, http.StatusPartialContent},
	} {
		t.Run(name+" does not wait for the renewal of an expired copy, and renews all of it", func(t *testing.T) {
			path := "/end/" + request.method
			_, whole := ask(t, client, http.MethodGet, base+path)
			if got := last(often(t, path)); got != "HIT memory" {
				t.Fatalf("it came from %s", got)
			}
			expired, renewed := false, false
			for end := time.Now().Add(time.Minute); !renewed; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the copy has expired: %t; another one answers: %t", expired, renewed)
				}
				r, body := ask(t, client, request.method, base+path, request.headers...)
				expired = expired || place(r) == "UPDATING memory"
				renewed = expired && place(r) == "HIT memory"
				atOnce := strings.HasSuffix(place(r), " memory") || place(r) == "HIT disk" // as above
				if !atOnce || r.StatusCode != request.status || body != request.content {
					t.Errorf("from %s, %d: %q", place(r), r.StatusCode, body)
				}
				if r.StatusCode == http.StatusOK && r.ContentLength != int64(len(whole)) {
					t.Errorf("it says that it has %d bytes, want %d", r.ContentLength, len(whole))
				}
			}
			if r, body := ask(t, client, http.MethodGet, base+path); !strings.HasSuffix(place(r), " memory") || body != whole {
				t.Errorf("then from %s: %q, want %q", place(r), body, whole)
			}
		})
	}
	t.Run("what its disk has no longer is old for a moment, and then new", func(t *testing.T) {
		if got := last(often(t, "/removed")); got != "HIT memory" {
			t.Fatalf("it came from %s", got)
		}
		for _, path := range n.Cached("http://www.example.com/removed", "disk1", "disk2", "disk3") {
			must(t, os.Remove(path)) // behind nginx's back
		}
		is := fmt.Sprintf("version %d", version.Add(1))
		var first, last time.Time // when the expired copy was served
		for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			r, body := ask(t, client, http.MethodGet, base+"/removed")
			if isNew := strings.Contains(body, is); !isNew && place(r) == "UPDATING memory" {
				if last = time.Now(); first.IsZero() {
					first = last
				}
			} else if isNew && place(r) == "HIT memory" {
				break
			}
			if time.Since(begun) > 20*time.Second {
				t.Fatalf("it still comes from %s: %q", place(r), body[:40])
			}
		}
		if took := last.Sub(first); took > 15*time.Second { // three renewals find that the disk has none
			t.Errorf("the old one was served for %s after its end", took)
		}
	})
	t.Run("each variant has its own copy", func(t *testing.T) {
		for _, encoding := range []string{"gzip", "br"} {
			if got := last(often(t, "/varied", "Accept-Encoding: "+encoding)); got != "HIT memory" {
				t.Errorf("%s came from %s", encoding, got)
			}
		}
		_, body := ask(t, client, http.MethodGet, base+"/varied", "Accept-Encoding: gzip")
		if !strings.Contains(body, `in "gzip"`) {
			t.Errorf("asked for gzip, got %q", body[:60])
		}
	})
	t.Run("requests with bodies are not taken for hits, and hold up nobody", func(t *testing.T) {
		begun := time.Now()
		for range 10 {
			request, err := http.NewRequest(http.MethodPost, base+"/hot", strings.NewReader(strings.Repeat("x", 5000)))
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("ten requests took %s", took)
		}
	})
	t.Run("what a client has already does not matter", func(t *testing.T) {
		places := often(t, "/conditional", "If-None-Match: \"other\"", "Range: bytes=0-10")
		if last(places) != "HIT memory" {
			t.Errorf("it came from %q", places)
		}
		r, body := ask(t, client, http.MethodGet, base+"/conditional")
		if place(r) != "HIT memory" || r.StatusCode != http.StatusOK || len(body) < 1000 {
			t.Errorf("%s: %d, %d bytes", place(r), r.StatusCode, len(body))
		}
	})
	t.Run("what is asked for only now and then stays out of it", func(t *testing.T) {
		for i := range 300 {
			r, _ := ask(t, client, http.MethodGet, fmt.Sprintf("%s/rare/%d", base, i%150))
			if strings.Contains(place(r), "memory") {
				t.Fatalf("request %d came from memory", i)
			}
		}
	})
	for _, internal := range []string{"/.cachenode-promote", "/.cachenode-renew"} {
		if r, _ := ask(t, client, http.MethodGet, base+internal); r.StatusCode != http.StatusNotFound {
			t.Errorf("the internal location %s answers with %d", internal, r.StatusCode)
		}
	}
}

// TestCopiesAreBounded checks that the tier fills slowly if more objects are hot than are copied in a second, whatever
// a client's headers say of renewals. Renewals do not count, so that objects in memory stay there.
func TestCopiesAreBounded(t *testing.T) {
	n, config := threeDisksWithTier(t, "{enabled: true, size: 64Mi, minUses: 1, maxExtraAge: 2s}")
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 500))
	}))
	n.Start()
	var rate int
	_, after, _ := strings.Cut(config.Text, "zone=copies:1m rate=")
	if _, err := fmt.Sscanf(after, "%dr/s", &rate); err != nil {
		t.Fatal(err)
	}
	client := n.Client()
	fromMemory := func(i int) bool {
		r, _ := ask(t, client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:8080/object/%d", i), "X-CacheNode-Renew: 1")
		return strings.HasSuffix(place(r), " memory")
	}
	inMemory := map[int]bool{}
	begun := time.Now()
	const filling, patience = 4 * time.Second, time.Minute
	isTooEarly := func() bool { // a busy machine takes longer
		return time.Since(begun) < filling || len(inMemory) < 2*rate && time.Since(begun) < patience
	}
	for i := 0; isTooEarly(); i = (i + 1) % (6 * rate) {
		if fromMemory(i) {
			inMemory[i] = true
		}
	}
	took := time.Since(begun)
	if most := float64(rate)*(1+took.Seconds()) + 1; len(inMemory) < 2*rate || float64(len(inMemory)) > most {
		t.Errorf("%d of %d objects are in memory after %s, with %d copies a second", len(inMemory), 6*rate, took, rate)
	}
	requests, fromDisk := 0, 0
	for begun = time.Now(); time.Since(begun) < filling; {
		for i := range inMemory {
			if requests++; !fromMemory(i) {
				fromDisk++
			}
		}
	}
	if fromDisk > requests/100 {
		t.Errorf("%d of %d requests for %d objects that were in memory went to a disk, with %d copies a second",
			fromDisk, requests, len(inMemory), rate)
	}
}

// TestMemoryTierOnOneDisk renders the least possible: one disk, and a minUses for which nginx accepts no burst. When
// the disk is gone, objects in memory are still served, and the rest comes from the origin.
func TestMemoryTierOnOneDisk(t *testing.T) {
	n := nginxtest.New(t)
	oneDisk := strings.Replace(threeDisks, ", {name: disk2, size: 1Gi}, {name: disk3, size: 1Gi}", "", 1)
	in := decode(t, []byte(oneDisk+"  memoryTier: {enabled: true, size: 64Mi, minUses: 1}\n"))
	config, err := cache.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	n.Configure(config.Text, "disk1")
	n.Mkdir(layout.MemoryTierDir)
	var count atomic.Int64
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		_, _ = io.WriteString(w, strings.Repeat("x", 500))
	}))
	n.Start()
	client := n.Client()
	var places []string
	for range 6 {
		r, _ := ask(t, client, http.MethodGet, "http://127.0.0.1:8080/hot")
		places = append(places, place(r))
		time.Sleep(20 * time.Millisecond)
	}
	if places[0] != "MISS disk" || places[5] != "HIT memory" || count.Load() != 1 {
		t.Errorf("it came from %q; the origin was asked %d times", places, count.Load())
	}
	if err := os.RemoveAll(n.Root + layout.CacheDir("disk1")); err != nil {
		t.Fatal(err)
	}
	if r, _ := ask(t, client, http.MethodGet, "http://127.0.0.1:8080/hot"); place(r) != "HIT memory" {
		t.Errorf("without its disk it came from %s", place(r))
	}
	r, body := ask(t, client, http.MethodGet, "http://127.0.0.1:8080/cold")
	if r.StatusCode != http.StatusOK || place(r) != "UNCACHED disk" || len(body) != 500 {
		t.Errorf("another: %d from %s, %d bytes", r.StatusCode, place(r), len(body))
	}
	// A running nginx refuses another key for a zone of the same name.
	in.Spec.Cache.Key = []v1alpha1.KeyPart{v1alpha1.KeyHost, v1alpha1.KeyRequestURI}
	other, err := cache.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	zone := regexp.MustCompile(`limit_req_zone .* zone=(\w+):`)
	a, b := zone.FindStringSubmatch(config.Text), zone.FindStringSubmatch(other.Text)
	if len(a) < 2 || len(b) < 2 || a[1] == b[1] {
		t.Errorf("the zones are %v and %v", a, b)
	}
}
