package cache_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// servers returns a function that changes a spec. The origin gets the given number of addresses, and the last ones are
// backups.
func servers(addresses, backups int) func(*v1alpha1.CacheNodeSpec) {
	return func(spec *v1alpha1.CacheNodeSpec) {
		spec.Origin.Servers = nil
		for i := range addresses {
			spec.Origin.Servers = append(spec.Origin.Servers, v1alpha1.OriginServer{
				Host: new(fmt.Sprintf("127.0.0.%d", i+1)), Port: new(int32(9000)), Backup: i >= addresses-backups,
			})
		}
	}
}

// serveOn runs an origin on all addresses from servers except the first, on which the test itself runs the origin.
func serveOn(n *nginxtest.Nginx, addresses int, handler http.HandlerFunc) {
	for i := 1; i < addresses; i++ {
		n.Serve(fmt.Sprintf("127.0.0.%d:9000", i+1), handler)
	}
}

// TestOneBadURL checks that requests that the origin does not answer do not make other requests fail. nginx asks an
// address that has failed last, but it still asks this address.
func TestOneBadURL(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/bad") {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, r.URL.Path)
	}
	for name, test := range map[string]struct {
		addresses, backups int
		change             func(*cache.Input)
	}{
		"one address":               {1, 0, nil},
		"three addresses":           {3, 0, nil},
		"addresses and backups":     {4, 2, nil},
		"more addresses than tries": {8, 0, nil},
		"without disks": {3, 0, func(in *cache.Input) {
			in.Facts.Failed = []string{"disk1", "disk2", "disk3"}
		}},
		"one try": {3, 1, func(in *cache.Input) { in.Spec.Origin.Retries.Tries = new(int32(1)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nginxtest.New(t)
			in := decode(t, []byte(threeDisks))
			servers(test.addresses, test.backups)(&in.Spec)
			if test.change != nil {
				test.change(&in)
			}
			config, err := cache.Render(in)
			must(t, err)
			// nginx remembers the failures until the test ends.
			n.Configure(withFailTimeout(config.Text), "disk1", "disk2", "disk3")
			n.Serve("127.0.0.1:9000", http.HandlerFunc(answer))
			serveOn(n, test.addresses, answer)
			n.Start()
			client := n.Client()
			for i := range 8 {
				if r, _ := get(t, client, "www.example.com", fmt.Sprintf("/bad/%d", i)); r.StatusCode != http.StatusBadGateway {
					t.Errorf("the bad URL: status %d, want 502", r.StatusCode)
				}
			}
			for i := range 20 {
				path := fmt.Sprintf("/fine/%d", i)
				if r, body := get(t, client, "www.example.com", path); r.StatusCode != http.StatusOK || body != path {
					t.Errorf("%s: status %d, %q", path, r.StatusCode, body)
				}
				r, body := send(t, client, http.MethodPost, "www.example.com", "http://127.0.0.1:8080"+path)
				if r.StatusCode != http.StatusOK || body != path {
					t.Errorf("POST %s: status %d, %q", path, r.StatusCode, body)
				}
			}
		})
	}
}

// withFailTimeout makes nginx remember failures of the origin's addresses for an hour, so that a test may be slow.
func withFailTimeout(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		server := strings.TrimSpace(line)
		if strings.HasPrefix(server, "server 127.0.0.") && strings.Contains(server, ":9000") {
			line = strings.Replace(line, ";", " fail_timeout=1h;", 1)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// TestSentAgain checks which requests nginx sends to a single address again, and how often.
func TestSentAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method, body string
		resets       int64  // the number of connections that the origin closes
		begun        string // what the origin sends before it closes a connection
		when         []v1alpha1.OriginFailure
		tries        int32
		status       int
		asked        int64
	}{
		"GET":                    {"GET", "", 5, "", nil, 3, 200, 6},
		"GET, all break off":     {"GET", "", 100, "", nil, 3, 502, 6},
		"GET, bytes have come":   {"GET", "", 100, "HTTP/1.1 200 OK\r\nContent-", nil, 3, 502, 1},
		"HEAD":                   {"HEAD", "", 1, "", nil, 3, 200, 2},
		"DELETE":                 {"DELETE", "", 1, "", nil, 3, 200, 2},
		"POST":                   {"POST", "", 1, "", nil, 3, 502, 1},
		"POST with a body":       {"POST", "text", 1, "", nil, 3, 502, 1},
		"PATCH":                  {"PATCH", "", 1, "", nil, 3, 502, 1},
		"PUT with a body":        {"PUT", "text", 1, "", nil, 3, 502, 1},
		"one try":                {"GET", "", 1, "", nil, 1, 502, 1},
		"not after an error":     {"GET", "", 1, "", []v1alpha1.OriginFailure{"Timeout"}, 3, 502, 1},
		"a status is no failure": {"GET", "", 0, "", []v1alpha1.OriginFailure{"Error", "HTTP404"}, 3, 404, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			client := startWith(t, func(w http.ResponseWriter, _ *http.Request) {
				if asked.Add(1) <= test.resets {
					connection, _, err := w.(http.Hijacker).Hijack()
					if err != nil {
						panic(err)
					}
					_, _ = io.WriteString(connection, test.begun)
					_ = connection.Close()
					return
				}
				w.WriteHeader(test.status)
			}, func(spec *v1alpha1.CacheNodeSpec) {
				spec.Origin.Retries.Tries = new(test.tries)
				if test.when != nil {
					spec.Origin.Retries.When = test.when
				}
			})
			request, err := http.NewRequestWithContext(t.Context(), test.method, example, strings.NewReader(test.body))
			must(t, err)
			request.Host = "www.example.com"
			response, err := client.Do(request)
			must(t, err)
			must(t, response.Body.Close())
			if response.StatusCode != test.status || asked.Load() != test.asked {
				t.Errorf("status %d after %d requests to the origin, want %d after %d",
					response.StatusCode, asked.Load(), test.status, test.asked)
			}
		})
	}
}

// TestExpiredIsSentAgain checks that an expired object is renewed although some connections to the origin break. If all
// connections break, the client gets the stale copy.
func TestExpiredIsSentAgain(t *testing.T) {
	t.Parallel()
	var resets, version atomic.Int64
	n := start(t, func(w http.ResponseWriter, _ *http.Request) {
		if resets.Add(-1) >= 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Cache-Control", "max-age=60, stale-while-revalidate=0")
		w.Header().Set("Connection", "close") // on a kept connection, nginx would try again by itself
		_, _ = fmt.Fprint(w, version.Add(1))
	})
	client := n.Client()
	get := func(want string) {
		t.Helper()
		r, body := ask(t, client, http.MethodGet, example)
		if got := fmt.Sprint(r.StatusCode, " ", r.Header.Get("X-Cache"), " ", body); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		expire(t, n, "http://www.example.com/object")
	}
	get("200 MISS 1")
	resets.Store(3)
	get("200 EXPIRED 2")
	expireKept(t, n, "/object", "") // otherwise the kept response would be the answer
	if left := resets.Load(); left != -1 {
		t.Errorf("the origin was asked %d times, want 4", 3-left)
	}
	resets.Store(1000)
	get("200 STALE 2")
	if asked := 1000 - resets.Load(); asked != 6 {
		t.Errorf("the origin was asked %d times, want 6", asked)
	}
}

// TestSilentAddress checks an address that does not answer at all, such as the address of a node without power. It
// costs only one connect timeout until nginx tries the address again.
func TestSilentAddress(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	in := decode(t, []byte(threeDisks))
	servers(3, 0)(&in.Spec)
	const silent = "192.0.2.1"
	in.Spec.Origin.Servers[1].Host = new(silent)
	in.Spec.Origin.Timeouts.Connect = "1s"
	config, err := cache.Render(in)
	must(t, err)
	line := "server " + silent + ":9000;"
	if !strings.Contains(config.Text, line) {
		t.Fatalf("no %q", line)
	}
	// nginx remembers failures until the test ends.
	n.Configure(strings.Replace(config.Text, line, "server "+silent+":9000 fail_timeout=1h;", 1),
		"disk1", "disk2", "disk3")
	answer := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }
	n.Serve("127.0.0.1:9000", http.HandlerFunc(answer))
	n.Serve("127.0.0.3:9000", http.HandlerFunc(answer))
	for _, command := range []string{
		"link add void type veth peer name void2", "link set void up", "link set void2 up",
		"addr add 192.0.2.9/24 dev void", "neigh add " + silent + " lladdr 02:00:00:00:00:77 dev void",
	} {
		if output, err := n.Inside(append([]string{"ip"}, strings.Fields(command)...)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", command, err, output)
		}
	}
	n.Start()
	client := n.Client()
	for i := range 30 {
		path := fmt.Sprintf("/object/%d", i)
		if r, body := get(t, client, "www.example.com", path); r.StatusCode != http.StatusOK || body != path {
			t.Errorf("%s: status %d, %q", path, r.StatusCode, body)
		}
	}
	// The workers share the state of an address.
	if got := strings.Count(n.Log(), "timed out) while connecting to upstream"); got != 1 {
		t.Errorf("%d connect time-outs, want 1", got)
	}
}

// TestEndpointThatGoesAway checks that no GET fails while one endpoint behind the single address of a Service goes
// away. The test resets every third connection before any response.
func TestEndpointThatGoesAway(t *testing.T) {
	t.Parallel()
	var connections, reset atomic.Int64
	client := startWith(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // so each request has a connection of its own
		if connections.Add(1)%3 != 0 {
			_, _ = io.WriteString(w, "ok")
			return
		}
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		reset.Add(1)
		_ = connection.(*net.TCPConn).SetLinger(0)
		_ = connection.Close()
	})
	for i := range 60 {
		r, body := get(t, client, "www.example.com", fmt.Sprintf("/object/%d", i))
		if r.StatusCode != http.StatusOK || body != "ok" {
			t.Errorf("request %d: status %d, %q", i, r.StatusCode, body)
		}
	}
	if reset.Load() < 20 {
		t.Errorf("only %d of %d connections were reset", reset.Load(), connections.Load())
	}
}
