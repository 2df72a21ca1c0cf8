package cache_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

func TestAtMost(t *testing.T) {
	t.Parallel()
	check := func(n int64, numbers ...int64) {
		t.Helper()
		atMost := regexp.MustCompile("^" + cache.AtMost(n) + "$")
		for _, m := range numbers {
			if got := atMost.MatchString(strconv.FormatInt(m, 10)); got != (m <= n) {
				t.Errorf("%d is at most %d: got %t; the expression is %s", m, n, got, atMost)
			}
		}
	}
	first := make([]int64, 1200)
	for i := range first {
		first[i] = int64(i)
	}
	for n := range int64(130) {
		check(n, first...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		n := random.Int64N(1 << random.IntN(40))
		check(n, max(n-1, 0), n, n+1, random.Int64N(1<<random.IntN(41)))
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

// threeDisksWithTier prepares nginx's files for threeDisks with a memory tier. tier contains the tier's fields as YAML.
// Workers wait for each other as long as a test may take. The limit on copies of one object is very high, because many
// requests may come before the first copy exists on a busy machine.
func threeDisksWithTier(t *testing.T, tier string) (*nginxtest.Nginx, cache.Config) {
	t.Helper()
	n := nginxtest.New(t)
	config, err := cache.Render(decode(t, []byte(threeDisks+nginxtest.MemoryTier(tier))))
	must(t, err)
	n.Configure(oftenRenewed(config.Text), "disk1", "disk2", "disk3")
	n.Mkdir(layout.MemoryTierDir)
	return n, config
}

// tiered is an nginx with a memory tier and an origin whose answers depend on the path.
type tiered struct {
	*nginxtest.Nginx
	client *http.Client

	mutex sync.Mutex
	// asked counts the requests that the origin got, by path. version is the version in the origin's responses, by path.
	asked, version map[string]int
}

const base = "http://127.0.0.1:8080"

func newTiered(t *testing.T, tier string) *tiered {
	t.Helper()
	n, _ := threeDisksWithTier(t, tier)
	m := &tiered{Nginx: n, asked: map[string]int{}, version: map[string]int{}}
	n.Serve("127.0.0.1:9000", m)
	n.Start()
	m.client = n.Client()
	return m
}

func (m *tiered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.asked[r.URL.Path]++
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Accept-Ranges", "bytes")
	body := fmt.Sprintf("%s %s version %d, in %q. %s",
		r.Method, r.URL.Path, m.version[r.URL.Path], r.Header.Get("Accept-Encoding"), strings.Repeat("x", 1000))
	switch {
	case strings.HasPrefix(r.URL.Path, "/private"):
		w.Header().Set("Cache-Control", "private")
	case strings.HasPrefix(r.URL.Path, "/varied"):
		w.Header().Set("Vary", "Accept-Encoding")
	case strings.HasPrefix(r.URL.Path, "/large"):
		body += strings.Repeat("y", 2000)
	}
	if strings.HasPrefix(r.URL.Path, "/chunked") {
		w.(http.Flusher).Flush()
	} else { // Go itself sends the length only for a short body
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if strings.HasPrefix(r.URL.Path, "/missing") {
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = io.WriteString(w, body)
}

// requests returns how many requests the origin got for a path.
func (m *tiered) requests(path string) int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.asked[path]
}

// change makes the origin send a new version for a path, and returns the text that names this version.
func (m *tiered) change(path string) string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.version[path]++
	return fmt.Sprint("version ", m.version[path])
}

// get asks for a path, and returns where the response came from.
func (m *tiered) get(
	t *testing.T, method, path string, headers ...string,
) (from string, r *http.Response, body string) {
	t.Helper()
	r, body = ask(t, m.client, method, base+path, headers...)
	return place(r), r, body
}

// hot asks for a path until the response comes from memory. All responses must have the same body. It returns where
// they came from.
func (m *tiered) hot(t *testing.T, path string, headers ...string) (places []string) {
	t.Helper()
	first := ""
	becomes(t, "HIT memory", func() string {
		from, _, body := m.get(t, http.MethodGet, path, headers...)
		places = append(places, from)
		if first == "" {
			first = body
		}
		if body != first {
			t.Errorf("%s: %q, then %q", path, first, body)
		}
		return from
	})
	return places
}

// expire makes both copies of an object look as if they had expired an hour ago.
func (m *tiered) expire(t *testing.T, path string) {
	t.Helper()
	expireInMemory(t, m.Nginx, "http://www.example.com"+path)
}

// TestMemoryTier checks that only hot objects are served from memory, and only for a limited time. They must be the
// same as on the disks.
func TestMemoryTier(t *testing.T) {
	t.Parallel()
	m := newTiered(t, "minUses: 2, maxObjectSize: 2000")
	t.Run("what is asked for often is served from memory", func(t *testing.T) {
		places := m.hot(t, "/hot")
		if places[0] != "MISS disk" || places[1] != "HIT disk" {
			t.Errorf("it came from %q", places)
		}
		if got := m.requests("/hot"); got != 1 {
			t.Errorf("the origin was asked %d times", got)
		}
		from, r, body := m.get(t, http.MethodGet, "/hot", "Range: bytes=0-8")
		if from != "HIT memory" || r.StatusCode != http.StatusPartialContent || body != "GET /hot " {
			t.Errorf("a range: %s %d %q", from, r.StatusCode, body)
		}
		from, r, body = m.get(t, http.MethodHead, "/hot")
		if from != "HIT memory" || body != "" || r.ContentLength < 1000 {
			t.Errorf("HEAD: %s, %d bytes", from, r.ContentLength)
		}
		if from, _, _ = m.get(t, http.MethodGet, "/hot", "Authorization: Bearer x"); from != "BYPASS disk" {
			t.Errorf("with credentials: %s", from)
		}
		if from, _, _ = m.get(t, http.MethodPost, "/hot"); from != "BYPASS disk" {
			t.Errorf("POST: %s", from)
		}
	})
	for name, path := range map[string]string{
		"what is too large": "/large", "what must not be cached": "/private", "what has no length": "/chunked",
		"an error": "/missing",
	} {
		t.Run(name+" stays out of it", func(t *testing.T) {
			requests := 0
			get := func() (places []string) {
				for range 4 {
					requests++
					from, _, _ := m.get(t, http.MethodGet, path)
					places = append(places, from)
				}
				return places
			}
			becomes(t, "HIT memory", func() string {
				if places := get(); strings.Contains(fmt.Sprint(places), "memory") {
					t.Fatalf("it came from %q", places)
				}
				from, _, _ := m.get(t, http.MethodGet, "/beside"+path) // is requested less often
				return from
			})
			if places := get(); strings.Contains(fmt.Sprint(places), "memory") {
				t.Errorf("it came from %q", places)
			}
			if got := m.requests(path); got != 1 && (path != "/private" || got != requests) {
				t.Errorf("the origin was asked %d times by %d requests", got, requests)
			}
		})
	}
	t.Run("an expired copy is renewed from the disk and not from the origin", func(t *testing.T) {
		m.hot(t, "/copied")
		m.expire(t, "/copied")
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for range 20 {
					// Sometimes the disk answers a request that comes when the renewal ends. TestMemoryTierAndHangingDisk shows that
					// no request waits during the renewal.
					from, _, _ := m.get(t, http.MethodGet, "/copied")
					if !strings.HasSuffix(from, " memory") && from != "HIT disk" {
						t.Errorf("it came from %s", from)
					}
				}
			})
		}
		clients.Wait()
		becomes(t, "HIT memory", func() string {
			from, _, _ := m.get(t, http.MethodGet, "/copied")
			return from
		})
		if got := m.requests("/copied"); got != 1 {
			t.Errorf("the origin was asked %d times", got)
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
			_, _, whole := m.get(t, http.MethodGet, path)
			m.hot(t, path)
			m.expire(t, path)
			becomes(t, "HIT memory", func() string {
				from, r, body := m.get(t, request.method, path, request.headers...)
				held := strings.HasSuffix(from, " memory") || from == "HIT disk"
				if !held || r.StatusCode != request.status || body != request.content {
					t.Errorf("from %s, %d: %q", from, r.StatusCode, body)
				}
				if r.StatusCode == http.StatusOK && r.ContentLength != int64(len(whole)) {
					t.Errorf("it says that it has %d bytes, want %d", r.ContentLength, len(whole))
				}
				return from
			})
			if from, _, body := m.get(t, http.MethodGet, path); from != "HIT memory" || body != whole {
				t.Errorf("then from %s: %q, want %q", from, body, whole)
			}
		})
	}
	t.Run("what its disk has no longer is old for a moment, and then new", func(t *testing.T) {
		m.hot(t, "/removed")
		for _, path := range m.Cached("http://www.example.com/removed", "disk1", "disk2", "disk3") {
			must(t, os.Remove(path)) // nginx does not know that the files are gone
		}
		is := m.change("/removed")
		m.expire(t, "/removed")
		becomes(t, "HIT memory, new true", func() string {
			from, _, body := m.get(t, http.MethodGet, "/removed")
			isNew := strings.Contains(body, is)
			if from == "HIT memory" && !isNew {
				t.Errorf("the copy that has expired is fresh")
			}
			return fmt.Sprintf("%s, new %t", from, isNew)
		})
	})
	t.Run("each variant has its own copy", func(t *testing.T) {
		for _, encoding := range []string{"gzip", "br"} {
			m.hot(t, "/varied", "Accept-Encoding: "+encoding)
		}
		_, _, body := m.get(t, http.MethodGet, "/varied", "Accept-Encoding: gzip")
		if !strings.Contains(body, `in "gzip"`) {
			t.Errorf("asked for gzip, got %q", body[:60])
		}
	})
	t.Run("requests with bodies are not taken for hits, and hold up nobody", func(t *testing.T) {
		m.hot(t, "/hot")
		for range 10 {
			request, err := http.NewRequest(http.MethodPost, base+"/hot", strings.NewReader(strings.Repeat("x", 5000)))
			must(t, err)
			request.Host = "www.example.com"
			response, err := m.client.Do(request)
			must(t, err)
			body, err := io.ReadAll(response.Body)
			must(t, err)
			must(t, response.Body.Close())
			if place(response) != "BYPASS disk" || !strings.HasPrefix(string(body), "POST /hot ") {
				t.Errorf("from %s, %d: %.40q", place(response), response.StatusCode, body)
			}
		}
	})
	t.Run("what a client has already does not matter", func(t *testing.T) {
		m.hot(t, "/conditional", "If-None-Match: \"other\"", "Range: bytes=0-10")
		from, r, body := m.get(t, http.MethodGet, "/conditional")
		if from != "HIT memory" || r.StatusCode != http.StatusOK || len(body) < 1000 {
			t.Errorf("%s: %d, %d bytes", from, r.StatusCode, len(body))
		}
	})
	t.Run("what is asked for only now and then stays out of it", func(t *testing.T) {
		for i := range 300 {
			if from, _, _ := m.get(t, http.MethodGet, fmt.Sprintf("/rare/%d", i%150)); strings.Contains(from, "memory") {
				t.Fatalf("request %d came from memory", i)
			}
		}
	})
	for _, internal := range []string{"/.cachenode-promote", "/.cachenode-renew"} {
		if _, r, _ := m.get(t, http.MethodGet, internal); r.StatusCode != http.StatusNotFound {
			t.Errorf("the internal location %s answers with %d", internal, r.StatusCode)
		}
	}
}

// TestNoRoom checks that an object for which memory has no room is not copied with each request.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	n, config := threeDisksWithTier(t, "minUses: 2, maxObjectSize: 2000")
	n.Configure(patient(config.Text), "disk1", "disk2", "disk3")
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 3000))
	}))
	n.Start()
	client := n.Client()
	before, _ := requestsOf(t, n)
	for range 100 {
		ask(t, client, http.MethodGet, base+"/large")
	}
	// nginx counts all requests: 100 from the client, at most 100 to the promoter, a few for the copies, and the request
	// for the count itself. Without a limit, the count would be 300.
	if after, _ := requestsOf(t, n); after-before < 190 || after-before > 225 {
		t.Errorf("nginx had %d requests for 100 of a client, want some 205", after-before)
	}
}

// TestCopiesAreBounded checks that the limit on copies applies, even if a client sends the header that marks a renewal.
// Renewals do not count, so that objects in memory stay there.
func TestCopiesAreBounded(t *testing.T) {
	t.Parallel()
	n, config := threeDisksWithTier(t, "minUses: 1")
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 500))
	}))
	var rate int
	_, after, _ := strings.Cut(config.Text, "zone=copies:1m rate=")
	if _, err := fmt.Sscanf(after, "%dr/s", &rate); err != nil {
		t.Fatal(err)
	}
	// The limit allows a burst of copies, and then one copy a minute instead of many a second. So the test only counts,
	// and does not measure time.
	limit := fmt.Sprintf("zone=copies:1m rate=%dr/s", rate)
	text := strings.Replace(oftenRenewed(config.Text), limit, "zone=copies:1m rate=1r/m", 1)
	n.Configure(text, "disk1", "disk2", "disk3")
	n.Start()
	client := n.Client()
	from := func(i int) string {
		r, _ := ask(t, client, http.MethodGet, fmt.Sprintf("%s/object/%d", base, i), "X-CacheNode-Renew: 1")
		return place(r)
	}
	inMemory := map[int]bool{}
	round := func() int {
		for i := range 6 * rate {
			for range 2 { // often enough for memory, however long a round takes
				if from(i) == "HIT memory" {
					inMemory[i] = true
				}
			}
		}
		return len(inMemory)
	}
	// A request also counts if it comes before the copy of its object exists.
	becomes(t, "enough", func() string {
		if n := round(); n < rate/2 {
			return fmt.Sprintf("%d of %d", n, rate)
		}
		return "enough"
	})
	for range 3 {
		round()
	}
	if len(inMemory) > 2*rate {
		t.Errorf("%d of %d objects are in memory, want %d and one a minute", len(inMemory), 6*rate, rate+1)
	}
	for i := range inMemory {
		expireInMemory(t, n, fmt.Sprintf("http://www.example.com/object/%d", i))
	}
	for i := range inMemory {
		// If the renewal counted, the object would not come back to memory for more than a minute.
		becomes(t, "HIT memory", func() string { return from(i) })
	}
}

// TestMemoryTierOnOneDisk tests the smallest configuration: one disk, and a minUses for which nginx accepts no burst.
// When the disk is gone, objects in memory are still served, and all other objects come from the origin.
func TestMemoryTierOnOneDisk(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	oneDisk := strings.Replace(threeDisks, ", {name: disk2, size: 1Gi}, {name: disk3, size: 1Gi}", "", 1)
	in := decode(t, []byte(oneDisk+nginxtest.MemoryTier("minUses: 1")))
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
	becomes(t, "HIT memory", func() string {
		r, _ := ask(t, client, http.MethodGet, "http://127.0.0.1:8080/hot")
		places = append(places, place(r))
		return place(r)
	})
	if places[0] != "MISS disk" || count.Load() != 1 {
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
