package cache_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// held is a response that stops after its first bytes until it is released, and counts its bytes.
type held struct {
	http.ResponseWriter
	request  *http.Request
	released chan struct{}
	sent     *atomic.Int64
}

func (h held) Write(p []byte) (int, error) {
	n, err := h.ResponseWriter.Write(p)
	h.sent.Add(int64(n))
	_ = http.NewResponseController(h.ResponseWriter).Flush()
	select {
	case <-h.released:
	case <-h.request.Context().Done():
	}
	return n, err
}

// TestOneSlowObject checks that the origin sends each byte once for six clients that ask before the transfer is over.
func TestOneSlowObject(t *testing.T) {
	t.Parallel()
	const clients = 6
	for name, change := range map[string]func(*v1alpha1.CacheNodeSpec){
		"whole": func(*v1alpha1.CacheNodeSpec) {}, "slices": inSlices,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object, released := content(9*mebi, name), make(chan struct{})
			var sent atomic.Int64
			n := start(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"1"`)
				w.Header().Set("Cache-Control", "max-age=600")
				http.ServeContent(held{w, r, released, &sent}, r, "", time.Time{}, bytes.NewReader(object))
			}, change)
			client := n.Client()
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					r, body := ask(t, client, http.MethodGet, example)
					if r.StatusCode != http.StatusOK || body != string(object) {
						t.Errorf("status %d, %d bytes", r.StatusCode, len(body))
					}
				})
			}
			becomes(t, "all have asked", func() string {
				_, status := ask(t, client, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/stub_status", layout.PrivatePort))
				_, count, _ := strings.Cut(status, "Writing: ")
				var requests int
				if _, err := fmt.Sscan(count, &requests); err != nil {
					t.Fatalf("%q: %v", status, err)
				}
				if requests < clients+2 { // the gateway's request to the origin counts too, and so does this one
					return status
				}
				return "all have asked"
			})
			close(released)
			all.Wait()
			if got := sent.Load(); got != int64(len(object)) {
				t.Errorf("the origin sent %d bytes of %d", got, len(object))
			}
		})
	}
}
