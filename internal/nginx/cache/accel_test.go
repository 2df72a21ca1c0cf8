package cache_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/fleet"
)

// TestUnbuffered checks that nginx passes on a response with X-Accel-Buffering: no without waiting for its end. The
// origin sends the end only when the client has the beginning.
func TestUnbuffered(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{
		"hard disks": sharded(""), "SSD": fastSharded(""), "slices": sharded("  cache: {slice: {size: 1Mi}}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			begun := make(chan bool)
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("X-Accel-Buffering", "no")
				w.Header().Set("Content-Length", "9") // nginx buffers no chunks
				_, _ = io.WriteString(w, "begin")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-begun:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, " end")
				return true
			})
			for pod := range p.nginx {
				for _, owner := range []int{0, 1} {
					path := "/object"
					for i := 0; ownerOf(t, fleet.Of(2), path) != owner; i++ {
						path += "/" + string(rune('a'+i))
					}
					request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080"+path, nil)
					must(t, err)
					request.Host = "www.example.com"
					r, err := p.clients[pod].Do(request)
					must(t, err)
					beginning := make([]byte, 5)
					_, err = io.ReadFull(r.Body, beginning)
					must(t, err)
					begun <- true
					rest, err := io.ReadAll(r.Body)
					must(t, err)
					if got := string(beginning) + string(rest); got != "begin end" || r.Header.Get("X-Accel-Buffering") != "" {
						t.Errorf("pod %d, owner %d: %q, %v", pod, owner, got, r.Header)
					}
					_ = r.Body.Close()
				}
			}
		})
	}
}
