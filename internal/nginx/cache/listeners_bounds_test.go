package cache_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/test/await"
)

// A bound is the reason why clients cannot occupy a listener with too many requests: a limit of nginx, or the fact that
// only the pod itself reaches the listener.
type bound string

const (
	inPod    bound = "nothing outside the pod reaches it"
	byZone   bound = "limit_conn"
	byClient bound = "limit_conn if the spec has listen.maxConnectionsPerClient"
)

// TestEveryListenerIsBounded lists the sockets that nginx opens. It checks each server on a socket that can be reached
// from outside the pod. The server must have timeouts for incomplete requests, and a limit for complete requests.
func TestEveryListenerIsBounded(t *testing.T) {
	t.Parallel()
	known := map[string]bound{
		"unix:" + layout.GatewaySocket: inPod, "unix:" + layout.PromoterSocket: inPod, "unix:" + layout.DisksSocket: inPod,
		"8080": byClient, "8443": byClient, "9080": byClient, "9443": byClient,
		"8081": byZone, "8088": byZone, "8089": byZone,
	}
	var seen []string
	for golden, file := range goldenFiles(t) {
		text, err := os.ReadFile(file)
		must(t, err)
		in := decode(t, text)
		config, err := cache.Render(in)
		must(t, err)
		for _, http := range parse(t, config.Text) {
			for _, server := range http.block {
				if server.words[0] != "server" {
					continue
				}
				addresses := listens(server)
				seen = append(seen, addresses...)
				for _, lack := range lacks(server, known[addresses[0]], in.Spec.Listen.MaxConnectionsPerClient != nil) {
					t.Errorf("%s: the server on %q has no %s", filepath.Base(golden), addresses, lack)
				}
			}
		}
	}
	slices.Sort(seen)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(known)), slices.Compact(seen)); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
}

// listens returns the addresses of a server.
func listens(server statement) (addresses []string) {
	for _, s := range server.block {
		if s.words[0] == "listen" {
			addresses = append(addresses, s.words[1])
		}
	}
	return addresses
}

// lacks returns the directives that a server needs and does not have.
func lacks(server statement, by bound, limitsClients bool) (list []string) {
	has := func(block []statement, name string) bool {
		return slices.ContainsFunc(block, func(s statement) bool { return s.words[0] == name })
	}
	for _, name := range []string{"client_header_timeout", "client_body_timeout"} {
		if by != inPod && !has(server.block, name) {
			list = append(list, name)
		}
	}
	answers := has(server.block, "location") // a server without a location only answers that the host is wrong
	if answers && (by == byZone || by == byClient && limitsClients) && !has(server.block, "limit_conn") {
		list = append(list, "limit_conn")
	}
	return list
}

// fewConnections is the number of connections that withFewConnections gives to a pod. The pod gets one worker.
const fewConnections = 128

func withFewConnections(_ int, in *cache.Input, _ func(string, []byte)) {
	in.Spec.Listen.MaxConnections, in.Facts.Cores = new(int32(fewConnections)), 1
}

// serves checks that a client of the first pod gets status 200.
func serves(t *testing.T, p *pods, path, when string) {
	t.Helper()
	r, _ := ask(t, p.nginx[0].Client(), http.MethodHead, "http://127.0.0.1:8080"+path)
	if r.StatusCode != http.StatusOK {
		t.Errorf("%s, a client gets %s", when, r.Status)
	}
}

// TestVersionIsTheRunningOne checks that the private server keeps no connection open. After a reload, a kept connection
// would lead to an old worker for some time, and this worker answers with its own version.
func TestVersionIsTheRunningOne(t *testing.T) {
	t.Parallel()
	p := newPods(t, 1, sharded(""))
	connection, err := p.nginx[0].Dial("127.0.0.1:8081")
	must(t, err)
	defer func() { _ = connection.Close() }()
	must(t, connection.SetDeadline(await.Deadline()))
	const request = "GET /version HTTP/1.1\r\nHost: pod\r\n\r\n"
	_, err = io.WriteString(connection, request+request)
	must(t, err)
	answers, err := io.ReadAll(connection) // until nginx closes the connection
	must(t, err)
	if got := strings.Count(string(answers), "HTTP/1.1 200 OK"); got != 1 {
		t.Errorf("a connection has %d answers, want 1:\n%s", got, answers)
	}
}

// endless is the path of an object that is larger than the buffers of sockets.
const endless = "/endless"

// unread sends the given number of requests for the object endless, and reads only the first line of each response. It
// counts the responses by their status.
func unread(t *testing.T, count int, dial func() (net.Conn, error)) map[string]int {
	t.Helper()
	answers := map[string]int{}
	for range count {
		connection, err := dial()
		must(t, err)
		t.Cleanup(func() { _ = connection.Close() })
		must(t, connection.SetDeadline(await.Deadline()))
		const end = " HTTP/1.1\r\nHost: www.example.com\r\nX-CacheNode-Scheme: http\r\nConnection: close\r\n\r\n"
		_, err = io.WriteString(connection, "GET "+endless+end)
		must(t, err)
		answer := make([]byte, len("HTTP/1.1 200"))
		read, _ := io.ReadFull(connection, answer)
		answers[string(answer[:read])]++
	}
	return answers
}

// withEndless returns pods, and the pod that owns the object endless. The owner has stored this object.
func withEndless(t *testing.T, count int) (p *pods, owner int) {
	t.Helper()
	p = newPods(t, count, sharded("  memoryTier: {enabled: false}\n"), withFewConnections)
	p.answers(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != endless {
			return false
		}
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = io.WriteString(w, strings.Repeat("0123456789abcdef", 1<<20))
		return true
	})
	owner = ownerOf(t, fleet.Of(count), endless)
	ask(t, p.clients[owner], http.MethodGet, "http://127.0.0.1:8080"+endless)
	p.nginx[owner].Cached("http://www.example.com"+endless, "disk1", "disk2")
	return p, owner
}

// TestEndlessRequestsOfPods checks that requests of a pod that never end leave connections for clients and for another
// pod. Beyond the limit, a request gets status 503 from the lookup port. The peer port gives no answer, because any
// answer of this port is about the object.
func TestEndlessRequestsOfPods(t *testing.T) {
	t.Parallel()
	for port, beyond := range map[int]string{8088: "HTTP/1.1 503", 8089: ""} {
		t.Run(fmt.Sprint(port), func(t *testing.T) {
			t.Parallel()
			p, _ := withEndless(t, 1)
			address := fmt.Sprintf("127.0.0.1:%d", port)
			got := unread(t, fewConnections, func() (net.Conn, error) {
				return p.nginx[0].DialFrom(net.IPv4(127, 0, 0, 2), address)
			})
			want := map[string]int{"HTTP/1.1 200": fewConnections / 2, beyond: fewConnections / 2}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the answers to requests that do not end (-want +got):\n%s", diff)
			}
			serves(t, p, endless, "beside requests that do not end")
			r, _ := ask(t, p.clients[0], http.MethodHead, "http://"+address+endless, "X-CacheNode-Scheme: http")
			if r.StatusCode != http.StatusOK {
				t.Errorf("beside requests that do not end, another pod gets %s", r.Status)
			}
		})
	}
}

// TestPodAtItsBound checks a pod that has reached its limit of requests to the owner of a key. The pod itself then
// serves its clients.
func TestPodAtItsBound(t *testing.T) {
	t.Parallel()
	p, owner := withEndless(t, 2)
	asking := 1 - owner
	got := unread(t, fewConnections/2, func() (net.Conn, error) {
		return p.nginx[asking].Dial(p.addresses[owner] + ":8089")
	})
	if diff := cmp.Diff(map[string]int{"HTTP/1.1 200": fewConnections / 2}, got); diff != "" {
		t.Fatalf("the answers up to the bound (-want +got):\n%s", diff)
	}
	if got := how(p.get(t, asking, ownedBy(t, owner, "/object"))); got != "none MISS" {
		t.Errorf("beyond the bound: %s, want none MISS", got)
	}
}

// TestStrangersAtPeerPorts checks that strangers without a certificate cannot use up the connections for clients
// through the ports for pods. They try it with requests, and with connections on which they send no request.
func TestStrangersAtPeerPorts(t *testing.T) {
	t.Parallel()
	_, secret := certificates(t)
	encrypt := func(t *testing.T, connection net.Conn) net.Conn {
		encrypted := tls.Client(connection, &tls.Config{InsecureSkipVerify: true})
		must(t, encrypted.Handshake())
		return encrypted
	}
	for name, strange := range map[string]func(*testing.T, net.Conn){
		"nothing":     func(*testing.T, net.Conn) {},
		"a handshake": func(t *testing.T, connection net.Conn) { encrypt(t, connection) },
		"a request": func(t *testing.T, connection net.Conn) {
			connection = encrypt(t, connection)
			_, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n")
			must(t, err)
			answer, err := io.ReadAll(connection) // until nginx closes the connection
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400") {
				t.Errorf("%v %q", err, answer)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 1, strings.Replace(sharded(""), `, tls: "Off"`, "", 1),
				func(pod int, in *cache.Input, write func(path string, content []byte)) {
					withFewConnections(pod, in, write)
					trusting(secret, in, write)
				})
			p.get(t, 0, "/object")
			for _, port := range []int{8088, 8089} {
				for range 2 * fewConnections {
					connection, err := p.nginx[0].Dial(fmt.Sprintf("127.0.0.1:%d", port))
					must(t, err)
					defer func() { _ = connection.Close() }()
					must(t, connection.SetDeadline(await.Deadline()))
					strange(t, connection)
				}
				serves(t, p, "/object", fmt.Sprintf("beside strangers at port %d", port))
			}
		})
	}
}
