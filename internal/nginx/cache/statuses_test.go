package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// TestOriginsOwnStatuses checks the statuses that pods and the gateway use for messages to each other. If an origin
// sends such a status, in answer to a renewal or in a response that is stored, nginx passes it on like any other
// status.
func TestOriginsOwnStatuses(t *testing.T) {
	t.Parallel()
	const noTier = "  memoryTier: {enabled: false}\n"
	for name, tt := range map[string]struct{ yaml, slice string }{
		"hard disks": {sharded(noTier), ""},
		"SSD":        {fastSharded(noTier), ""},
		"slices":     {fastSharded(noTier + "  cache: {slice: {size: 1Mi}}\n"), slice(0) + " "},
		"stored": {
			sharded(noTier + "  cache: {valid: [{status: [200, 470, 471, 472, 473], for: 1h}]}\n"), "",
		},
	} {
		for _, status := range []int{470, 471, 472, 473} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				t.Parallel()
				p := newPods(t, 2, tt.yaml)
				path := ownedBySecond(t, "/object")
				p.get(t, 0, path)
				expire(t, p.nginx[1], tt.slice+"http://www.example.com"+path)
				p.answers(func(w http.ResponseWriter, _ *http.Request) bool {
					w.Header().Set("X-CacheNode-State", "SLOW") // the gateway's own mark
					w.WriteHeader(status)
					_, _ = io.WriteString(w, "the origin's own")
					return true
				})
				for i, want := range []string{"EXPIRED", "EXPIRED", "EXPIRED", "EXPIRED"} {
					if name == "stored" && i > 0 {
						want = "HIT"
					}
					r, body := ask(t, p.clients[i%2], http.MethodGet, "http://127.0.0.1:8080"+path)
					if got := r.Header.Get("X-Cache"); got != want || r.StatusCode != status || body != "the origin's own" {
						t.Errorf("answer %d: %s %d %q, want %s", i, got, r.StatusCode, body, want)
					}
				}
			})
		}
	}
}
