package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/fleet"
)

// TestOwnerWithoutOrigin checks an owner that has just started and does not know the origin's addresses yet. No request
// may fail because of this; another pod fetches the object.
func TestOwnerWithoutOrigin(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{"hard disks": sharded(""), "SSD": fastSharded("")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			yaml = strings.Replace(yaml, "host: 127.0.0.1", "host: origin.example.com", 1)
			p := newPods(t, 2, yaml) // no resolver answers in the second pod
			var address atomic.Value
			address.Store("127.0.0.1")
			resolve(t, p.nginx[0], &address)
			p.take(t, 0, fleet.Of(2)) // new workers resolve the name at once
			becomes(t, "none MISS", func() string {
				path := "/object/mine"
				for i := 0; ownerOf(t, fleet.Of(2), path) != 0; i++ {
					path = fmt.Sprintf("/object/mine-%d-%d", i, p.requests(path))
				}
				r, _ := ask(t, p.clients[0], http.MethodGet, "http://127.0.0.1:8080"+path)
				return how(r)
			})
			for i := range 5 {
				path := ownedBySecond(t, fmt.Sprintf("/object/%d", i))
				p.get(t, 0, path)
			}
			r, body := ask(t, p.clients[1], http.MethodGet, "http://127.0.0.1:8080"+ownedBySecond(t, "/object"))
			if r.StatusCode != http.StatusBadGateway { // a client that asks the second pod directly gets the error
				t.Errorf("through the pod itself: %d %q", r.StatusCode, body)
			}
		})
	}
}

// TestLongHeaders checks that headers that the server for clients accepts are not too long for the servers behind it.
// Those servers get additional headers, and lines that nginx has joined. If such a server refused a request, nginx
// could store the error for all clients.
func TestLongHeaders(t *testing.T) {
	t.Parallel()
	for name, yaml := range ways("valid: [{status: [200], for: 1h}, {status: [400], for: 1h}]") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				_, _ = io.WriteString(w, r.URL.Path)
				return true
			})
			line := func(size int) string {
				const name = "X-Forwarded-For: "
				return name + strings.Repeat("1", size-len(name)) + "\r\n"
			}
			for i, headers := range []string{line(8184), line(5000) + line(5000), line(7000) + line(7000) + line(7000)} {
				path := ownedBySecond(t, fmt.Sprintf("/object/%d", i))
				for pod, n := range p.nginx {
					request := "GET " + path + " HTTP/1.1\r\nHost: www.example.com\r\n" + headers + "\r\n"
					status, bodies := exchange(t, n, "127.0.0.1:8080", request, request)
					if !slices.Equal(status, []int{200, 200}) || bodies[1] != path {
						t.Errorf("%d bytes, pod %d: %v, %d bytes", len(headers), pod, status, len(bodies[1]))
					}
				}
			}
		})
	}
}

// TestAnswersBeforeLocations checks answers of another pod that come from its server and not from one of its locations.
// Such an answer says nothing about the object, so it must not reach a client.
func TestAnswersBeforeLocations(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{
		"hard disks": sharded("  memoryTier: {enabled: false}\n"), "SSD": fastSharded("  memoryTier: {enabled: false}\n"),
	} {
		for _, status := range []int{400, 414, 421, 500, 503, 505} {
			t.Run(fmt.Sprint(name, status), func(t *testing.T) {
				t.Parallel()
				own := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(status)
					_, _ = io.WriteString(w, "an answer of the server")
				})
				p, _ := fakePods(t, yaml, own, own)
				p.get(t, 0, owned(t, "/object", 2, 1, 1)[0])
			})
		}
	}
}
