package cache_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestOriginsName starts nginx before its origin's name exists. nginx must start, find the origin when the name
// appears, and follow a change of its address.
func TestOriginsName(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	in := decode(t, []byte(strings.Replace(threeDisks,
		"{host: 127.0.0.1, port: 9000}", "{host: origin.example.com, port: 9000}", 1)))
	config, err := cache.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	var address atomic.Value
	address.Store("")
	resolve(t, n, &address)
	for _, ip := range []string{"127.0.0.2", "127.0.0.3"} {
		n.Serve(ip+":9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, ip) }))
	}
	n.Start()
	client := n.Client()

	if response, _ := get(t, client, "www.example.com", "/before"); response.StatusCode != http.StatusBadGateway {
		t.Errorf("without a name: status %d, want 502", response.StatusCode)
	}
	for _, ip := range []string{"127.0.0.2", "127.0.0.3"} {
		address.Store(ip)
		asked := 0
		becomes(t, "200 "+ip, func() string {
			asked++
			response, body := get(t, client, "www.example.com", fmt.Sprintf("/%s/%d", ip, asked))
			return fmt.Sprint(response.StatusCode, " ", body)
		})
	}
}

// resolve runs a DNS server at the address where nginx expects the agent's resolver. It answers every name with one
// address. While the address is "", no name exists.
func resolve(t *testing.T, n *nginxtest.Nginx, address *atomic.Value) {
	t.Helper()
	server := &dns.Server{PacketConn: n.ListenPacket(layout.ResolverAddress), Handler: oneAddress(address)}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })
}

func oneAddress(address *atomic.Value) dns.Handler {
	return dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		answer := (&dns.Msg{}).SetReply(question)
		answer.RecursionAvailable = true // required for names outside the server's own zones
		if ip := address.Load().(string); ip == "" {
			answer.Rcode = dns.RcodeNameError
		} else if rcode, isCode := dns.StringToRcode[ip]; isCode {
			answer.Rcode = rcode
		} else if question.Question[0].Qtype == dns.TypeA {
			answer.Answer = []dns.RR{&dns.A{
				Hdr: dns.RR_Header{Name: question.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1},
				A:   net.ParseIP(ip),
			}}
		}
		_ = w.WriteMsg(answer)
	})
}

// TestFullQueue gives a disk a single thread and no queue. A request that finds no thread is served from the origin. A
// response breaks off only if its header has already been sent; nothing can prevent that. Every overflow of the queue
// leads to one of these two results.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	var count atomic.Int64
	n, paths := withoutQueue(t, 32, origin(&count))
	client := n.Client()
	overflow := `thread pool "pool_disk1" queue overflow`
	before := strings.Count(n.Log(), overflow)

	var group sync.WaitGroup
	var mutex sync.Mutex
	seen := map[string]int{}
	for range 32 {
		group.Go(func() {
			for i := range 100 {
				status, err := fetch(client, paths[i%len(paths)])
				mutex.Lock()
				if seen[status]++; err != nil {
					t.Error(err)
				}
				mutex.Unlock()
			}
		})
	}
	group.Wait()
	overflows := strings.Count(n.Log(), overflow) - before
	t.Logf("%v, %d queue overflows", seen, overflows)
	if seen["UNCACHED"] == 0 || seen["HIT"] == 0 {
		t.Error("the queue has not overflowed, or nothing else has happened: nothing is shown")
	}
	if seen["UNCACHED"]+seen["broken off"] != overflows {
		t.Errorf("%d overflows, but %d requests were served from the origin and %d broke off",
			overflows, seen["UNCACHED"], seen["broken off"])
	}
}

// withoutQueue returns an nginx whose disk has a single thread and no queue, and the paths of stored objects. atOnce is
// the number of requests that may bypass the disk at the same time.
func withoutQueue(t *testing.T, atOnce int32, origin http.Handler) (n *nginxtest.Nginx, paths []string) {
	t.Helper()
	n = nginxtest.New(t)
	in := decode(t, []byte(strings.Replace(threeDisks,
		"[{name: disk1, size: 1Gi}, {name: disk2, size: 1Gi}, {name: disk3, size: 1Gi}]",
		"[{name: disk1, size: 1Gi, threadPool: {threads: 1}}]", 1)))
	in.Spec.Disks[0].ThreadPool.MaxQueue = new(int32(0)) // the API server would refuse this value
	in.Spec.Origin.FallbackConcurrency = &atOnce
	in.Facts.Cores = 1
	config, err := cache.Render(in)
	must(t, err)
	n.Configure(config.Text, "disk1")
	n.Serve("127.0.0.1:9000", origin)
	n.Start()
	client := n.Client()
	for i := range 20 {
		paths = append(paths, fmt.Sprintf("/object/%d", i))
		_, err := fetch(client, paths[i]) // fills the cache; the single thread may be busy already
		must(t, err)
	}
	return n, paths
}

// fetch returns the value of X-Cache, or "broken off" for a response that ends too early.
func fetch(client *http.Client, path string) (status string, err error) {
	request, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	if err != nil {
		return "", err
	}
	request.Host = "www.example.com"
	request.Close = true // on a kept connection, Go would retry by itself
	response, err := client.Do(request)
	if errors.Is(err, io.EOF) {
		return "broken off", nil // the connection closed while the header was still in a buffer
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "broken off", nil
	}
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK || string(body) != path+" of www.example.com" {
		return "", fmt.Errorf("%s: %d %q", path, response.StatusCode, body)
	}
	return response.Header.Get("X-Cache"), nil
}
