package cache_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
)

// crowd is an origin that answers requests only when enough of them have arrived.
type crowd struct {
	mutex   sync.Mutex
	control string
	now     *batch
	// answer writes the response after Cache-Control has been set; nil for an object of 1,000 bytes.
	answer http.HandlerFunc
}

// aside is the beginning of paths that a crowd answers at once and does not count.
const aside = "/aside"

// batch describes requests that are answered together.
type batch struct {
	want, here int
	// some is closed when the first request has arrived. full is closed when all requests have arrived.
	some, full chan struct{}
}

// next begins a new batch, and returns it. The origin answers the requests of the batch as soon as the wanted number
// has arrived. Requests of the former batch are answered now.
func (c *crowd) next(want int) *batch {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if before := c.now; before != nil && before.here < before.want {
		close(before.full)
	}
	c.now = &batch{want: want, some: make(chan struct{}), full: make(chan struct{})}
	return c.now
}

// say makes the origin send the given Cache-Control from now on.
func (c *crowd) say(control string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.control = control
}

// came returns the number of requests of a batch that have arrived.
func (c *crowd) came(b *batch) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return b.here
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, aside) {
		c.wait(r)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	w.Header().Set("Cache-Control", c.control)
	if c.answer != nil {
		c.answer(w, r)
		return
	}
	w.Header().Set("ETag", `"1"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("x", 1000)))
}

// wait waits for the other requests of the batch.
func (c *crowd) wait(r *http.Request) {
	c.mutex.Lock()
	b := c.now
	b.here++
	if b.here == 1 {
		close(b.some)
	}
	if b.here == b.want {
		close(b.full)
	}
	c.mutex.Unlock()
	select {
	case <-b.full:
	case <-r.Context().Done():
	}
}

var stubStatus = regexp.MustCompile(`\d+ \d+ (\d+)\s+Reading: \d+ Writing: (\d+)`)

// requestsOf returns the number of requests that nginx has received, and the number that it has not answered yet.
// Requests to the gateway count too, and so does the request for stub_status itself.
func requestsOf(t *testing.T, n *nginxtest.Nginx) (all, unanswered int) {
	t.Helper()
	_, body := ask(t, n.Client(), http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(layout.PrivatePort)+"/stub_status")
	counts := stubStatus.FindStringSubmatch(body)
	if counts == nil {
		t.Fatalf("stub_status is %q", body)
	}
	all, _ = strconv.Atoi(counts[1])
	unanswered, _ = strconv.Atoi(counts[2])
	return all, unanswered
}

// occupied waits until nginx has the given number of requests that it has not answered.
func occupied(t *testing.T, n *nginxtest.Nginx, requests int) {
	t.Helper()
	becomes(t, "enough requests", func() string {
		_, unanswered := requestsOf(t, n)
		if unanswered < requests+1 { // the request for stub_status counts too
			return fmt.Sprintf("%d requests of %d", unanswered-1, requests)
		}
		return "enough requests"
	})
}

// had waits until nginx has received the given number of requests in addition to those before. Each request for
// stub_status counts too.
func had(t *testing.T, n *nginxtest.Nginx, before, requests int) {
	t.Helper()
	questions := 0
	becomes(t, "enough requests", func() string {
		all, _ := requestsOf(t, n)
		if questions++; all < before+questions+requests {
			return fmt.Sprintf("%d requests of %d", all-before-questions, requests)
		}
		return "enough requests"
	})
}

// several sends the given number of requests at the same time. It returns a function that waits for the responses, and
// counts them by the text of answerOf.
func several(t *testing.T, count int, client *http.Client, url string) func() map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	var group sync.WaitGroup
	var mutex sync.Mutex
	got := map[string]int{}
	for range count {
		group.Go(func() {
			answer := answerOf(ctx, client, url)
			mutex.Lock()
			defer mutex.Unlock()
			got[answer]++
		})
	}
	return func() map[string]int {
		group.Wait()
		cancel()
		return got
	}
}

// answerOf returns how a request was answered: the status, the length of the body and X-Cache, or the error.
func answerOf(ctx context.Context, client *http.Client, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	request.Host = "www.example.com"
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(response.StatusCode, " ", len(body), " ", response.Header.Get("X-Cache"))
}

// crowdPods starts two pods with the crowd as their origin.
func crowdPods(t *testing.T, yaml string, c *crowd) *pods {
	t.Helper()
	p := newPods(t, 2, strings.Replace(yaml, "port: 9000", "port: 9001", 1))
	for _, n := range p.nginx {
		n.Serve("127.0.0.1:9001", c)
	}
	return p
}

// oneNginx starts one nginx with an origin. lines are added to its spec.
func oneNginx(t *testing.T, origin http.Handler, lines ...string) *nginxtest.Nginx {
	t.Helper()
	return nginxOf(t, origin, threeDisks+strings.Join(lines, ""))
}

// nginxOf starts one nginx with an origin. yaml is a CacheNode with three disks, and changes are applied to the facts
// of the pod.
func nginxOf(t *testing.T, origin http.Handler, yaml string, changes ...func(*cache.Facts)) *nginxtest.Nginx {
	t.Helper()
	n := nginxtest.New(t)
	in := decode(t, []byte(yaml))
	for _, change := range changes {
		change(&in.Facts)
	}
	config, err := cache.Render(in)
	must(t, err)
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	n.Serve("127.0.0.1:9000", origin)
	n.Start()
	return n
}
