package cache_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestHitForMiss checks that requests for an object that may not be stored do not wait for each other. After the first
// response, all other requests go to the origin, including those that have waited.
func TestHitForMiss(t *testing.T) {
	t.Parallel()
	const clients = 10
	for name, yaml := range ways("") {
		for pod, how := range []string{"over a hop", "own key"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				c := &crowd{control: "no-store"}
				p := crowdPods(t, yaml, c)
				url := "http://127.0.0.1:8080" + ownedBySecond(t, "/page")
				first := c.next(clients + 1)
				answers := several(t, clients, p.clients[pod], url)
				<-first.some
				occupied(t, p.nginx[pod], clients)
				others := c.next(clients - 1)
				check := func(b *batch, want int, afterAWait string) {
					got := answers()
					got["200 1000 MISS"] += got[afterAWait]
					delete(got, afterAWait)
					if diff := cmp.Diff(map[string]int{"200 1000 MISS": clients}, got); diff != "" || c.came(b) != want {
						t.Fatalf("%d of %d requests came to the origin together (-want +got):\n%s", c.came(b), want, diff)
					}
				}
				check(others, clients-1, "200 1000 BYPASS") // of a request that has waited for 200 ms
				for range 2 {
					again := c.next(clients)
					answers = several(t, clients, p.clients[pod], url)
					check(again, clients, "")
				}
			})
		}
	}
}

// TestHitForMissAfterALongWait checks the same for requests that have waited so long that they have asked the gateway
// whether to wait longer.
func TestHitForMissAfterALongWait(t *testing.T) {
	t.Parallel()
	const clients = 5
	c := &crowd{control: "no-store"}
	n, url := oneNginx(t, c), "http://127.0.0.1:8080/page"
	first := c.next(clients + 1)
	before, _ := requestsOf(t, n)
	answers := several(t, clients, n.Client(), url)
	<-first.some
	had(t, n, before, 2*clients) // each asks the gateway once: for the object, or whether to wait longer
	if c.came(first) != 1 {
		t.Errorf("%d requests came to the origin while the first was there", c.came(first))
	}
	others := c.next(clients - 1)
	want := map[string]int{"200 1000 MISS": 1, "200 1000 BYPASS": clients - 1}
	if diff := cmp.Diff(want, answers()); diff != "" || c.came(others) != clients-1 {
		t.Errorf("%d of %d requests came to the origin together (-want +got):\n%s", c.came(others), clients-1, diff)
	}
}

// TestNotesAreForgotten checks that an object that could not be stored is stored as soon as it can be.
func TestNotesAreForgotten(t *testing.T) {
	t.Parallel()
	for name, slice := range map[string]string{"whole": "", "slices": "  cache: {slice: {size: 1Mi}}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &crowd{control: "no-store"}
			n, url := oneNginx(t, c, slice), "http://127.0.0.1:8080/page"
			ways := []string{"MISS", "MISS", "MISS", "MISS"} // the last ones without a lock
			var got []string
			for range ways {
				c.next(1)
				got = append(got, status(t, n.Client(), url))
			}
			c.say("max-age=600")
			for range 3 {
				got = append(got, status(t, n.Client(), url))
			}
			if diff := cmp.Diff(append(ways, "MISS", "HIT", "HIT"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotesDoNotHideObjects checks a client whose responses from the origin may not be stored. Its requests change
// nothing for other clients while the object is stored, or when the object has expired.
func TestNotesDoNotHideObjects(t *testing.T) {
	t.Parallel()
	for name, yaml := range ways("valid: [{status: [200], for: 10m}]") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			path := ownedBySecond(t, "/page")
			provokes := func(pod int) {
				ask(t, p.clients[pod], http.MethodGet, "http://127.0.0.1:8080"+path, "X-Debug: 1")
			}
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("X-Debug") != "" {
					w.Header().Set("Cache-Control", "no-store")
				}
				return false
			})
			for range 3 { // until the object is noted
				provokes(1)
			}
			p.get(t, 0, path) // is stored
			stored := p.requests(path)
			for range 5 {
				provokes(0)
				provokes(1)
			}
			if got := how(p.get(t, 1, path)); !strings.HasSuffix(got, "HIT") || p.requests(path) != stored {
				t.Errorf("%s, and the origin was asked %d times instead of %d", got, p.requests(path), stored)
			}
		})
	}
}

// TestNotesAreBounded checks the script's memory with many long keys of objects that may not be stored: new notes take
// the place of old ones.
func TestNotesAreBounded(t *testing.T) {
	t.Parallel()
	n := start(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "no-store") })
	client, long := n.Client(), strings.Repeat("x", 7000)
	for i := range 400 { // 2.8 MB
		r, _ := ask(t, client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:8080/%d/%s", i, long))
		if r.StatusCode != http.StatusOK || r.Header.Get("X-Cache") != "MISS" {
			t.Fatalf("request %d: status %d, X-Cache %s", i, r.StatusCode, r.Header.Get("X-Cache"))
		}
	}
	if log := n.Log(); strings.Contains(log, "js ") {
		t.Error("the script has reported an error")
	}
}

// TestWhatIsNoted checks which responses the script notes as responses that may not be stored. More requests come while
// the body of the first response is still being sent. They go to the origin if the response was noted, and otherwise
// wait for its end.
func TestWhatIsNoted(t *testing.T) {
	t.Parallel()
	const clients = 3
	later := nginxtest.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for name, tt := range map[string]struct {
		status int
		header http.Header
		noted  bool
	}{
		"max-age":                        {200, http.Header{"Cache-Control": {"max-age=60"}}, false},
		"max-age with a zero before it":  {200, http.Header{"Cache-Control": {"max-age=060"}}, false},
		"by cache.valid":                 {200, http.Header{}, false},
		"Expires":                        {200, http.Header{"Expires": {later}}, false},
		"Expires, public":                {200, http.Header{"Expires": {later}, "Cache-Control": {"public"}}, false},
		"s-maxage instead of max-age":    {200, http.Header{"Cache-Control": {"max-age=0, s-maxage=600"}}, false},
		"X-Accel-Expires alone counts":   {200, http.Header{"Cache-Control": {"no-cache"}, "X-Accel-Expires": {"9"}}, false},
		"another status with a lifetime": {403, http.Header{"Cache-Control": {"max-age=60"}}, false},
		"another status":                 {403, http.Header{}, true},
		"no-store":                       {200, http.Header{"Cache-Control": {"no-store"}}, true},
		"no-store, X-Accel-Expires":      {200, http.Header{"Cache-Control": {"no-store"}, "X-Accel-Expires": {"60"}}, true},
		"private":                        {200, http.Header{"Cache-Control": {"private, max-age=60"}}, true},
		"max-age=0":                      {200, http.Header{"Cache-Control": {"max-age=0"}}, true},
		"s-maxage=0":                     {200, http.Header{"Cache-Control": {"s-maxage=0, max-age=60"}}, true},
		"X-Accel-Expires: 0":             {200, http.Header{"X-Accel-Expires": {"0"}}, true},
		"a cookie":                       {200, http.Header{"Set-Cookie": {"a=b"}, "Cache-Control": {"max-age=60"}}, true},
		"Vary: *":                        {200, http.Header{"Vary": {"*"}}, true},
		"aged":                           {200, http.Header{"Cdn-Cache-Control": {"max-age=60"}, "Age": {"3"}}, true},
		"a Vary that fits":               {200, http.Header{"Vary": {strings.Repeat("x", 128)}}, false},
		"a Vary that is too long":        {200, http.Header{"Vary": {strings.Repeat("x", 129)}}, true},
		"Vary: X-Forwarded-For":          {200, http.Header{"Vary": {"Accept, x-forwarded-for"}}, true},
		"not found":                      {404, http.Header{"Cache-Control": {"no-store"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			arrived, release := make(chan struct{}, clients), make(chan struct{})
			n := start(t, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				maps.Copy(w.Header(), tt.header)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, "the first half, ")
				w.(http.Flusher).Flush() //nolint:forcetypeassert // the server's own
				arrived <- struct{}{}
				select {
				case <-release:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "and the second")
			})
			first := several(t, 1, n.Client(), "http://127.0.0.1:8080/page")
			<-arrived
			before, _ := requestsOf(t, n)
			others := several(t, clients-1, n.Client(), "http://127.0.0.1:8080/page")
			if tt.noted {
				for range clients - 1 {
					<-arrived
				}
			} else {
				had(t, n, before, 2*(clients-1)) // each asks the gateway once, and waits on
			}
			want := int64(1)
			if tt.noted {
				want = clients
			}
			if got := asked.Load(); got != want {
				t.Errorf("%d requests came to the origin, want %d", got, want)
			}
			close(release)
			first()
			others()
		})
	}
}

// halved is an origin that sends the header of a response, and holds the body back. It answers at once if the request
// has a cookie or asks for a status: such a response may not be stored. It also answers at once if the request has a
// range beyond the end.
type halved struct {
	asked             atomic.Int64
	arrived, released chan struct{}
}

func (h *halved) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked.Add(1)
	w.Header().Set("ETag", `"1"`)
	w.Header().Set("Cache-Control", "max-age=600")
	status, _ := strconv.Atoi(r.Header.Get("X-Status"))
	switch {
	case status != 0:
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
	case r.Header.Get("Cookie") != "":
		w.Header().Set("Cache-Control", "no-store")
	case strings.HasPrefix(r.Header.Get("Range"), "bytes=9"):
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	default:
		w.Header().Set("Content-Length", "4")
		w.(http.Flusher).Flush() //nolint:forcetypeassert // the server's own
		h.arrived <- struct{}{}
		select {
		case <-h.released:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "page")
	}
}

// TestNotesDoNotOutweigh checks that a response that may not be stored does not switch the lock off for requests that
// wait for a response that may be stored. Three kinds of responses are tested: a response to a client with a cookie, a
// response to a range that does not exist, and an error. The client's own headers, address or pace can provoke such an
// error.
func TestNotesDoNotOutweigh(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:8080/page"
	type test struct {
		slice, header string
		leaders       int // requests that do not wait: one without the lock after a note, and one with it
	}
	tests := map[string]test{
		"a client's own":            {"", "Cookie: visitor=1", 2},
		"a range that is not there": {"  cache: {slice: {size: 1Mi}}\n", "Range: bytes=9999999-", 1},
	}
	statuses := []int{400, 406, 407, 408, 411, 412, 413, 414, 415, 416, 417, 421, 425, 426, 428, 429, 431, 500}
	for _, status := range statuses {
		tests[strconv.Itoa(status)] = test{"", fmt.Sprint("X-Status: ", status), 1}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &halved{arrived: make(chan struct{}, 10), released: make(chan struct{})}
			// A worker notes the leader's header before it answers a later request. Another worker could answer earlier.
			n := nginxOf(t, h, threeDisks+tt.slice, func(f *cache.Facts) { f.Cores = 1 })
			ask(t, n.Client(), http.MethodGet, url, tt.header)
			want := int64(1 + tt.leaders)
			var answers []func() map[string]int
			for leader := range tt.leaders {
				answers = append(answers, several(t, 1, n.Client(), url))
				<-h.arrived
				if leader+1 < tt.leaders { // nobody has the lock
					ask(t, n.Client(), http.MethodGet, url, tt.header)
					want++
				}
			}
			const others = 3
			before, _ := requestsOf(t, n)
			answers = append(answers, several(t, others, n.Client(), url))
			if tt.slice == "" {
				had(t, n, before, 2*others) // each asks the gateway once, and waits on
			}
			occupied(t, n, 2*tt.leaders+others)
			close(h.released)
			for _, wait := range answers {
				wait()
			}
			if got := h.asked.Load(); got != want {
				t.Errorf("the origin got %d requests, want %d", got, want)
			}
		})
	}
}

// status returns the X-Cache of a response.
func status(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	r, _ := ask(t, client, http.MethodGet, url)
	return r.Header.Get("X-Cache")
}
