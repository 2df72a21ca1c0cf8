package cache_test

import (
	"io"
	"net"
	"net/http"
	"testing"
)

// TestVaryForwardedFor checks an origin whose responses depend on X-Forwarded-For. No client may get the response for
// another client. For Vary, nginx compares the header that the client sent, but the origin gets a header to which nginx
// has added the client's address.
func TestVaryForwardedFor(t *testing.T) {
	t.Parallel()
	for name, yaml := range ways("") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 2, yaml)
			path := ownedBySecond(t, "/page")
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Cache-Control", "max-age=600")
				w.Header().Add("Vary", "Accept")
				w.Header().Add("Vary", "Accept-Language, x-forwarded-For")
				w.Header().Set("ETag", `"`+r.Header.Get("X-Forwarded-For")+`"`)
				_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-For"))
				return true
			})
			for pod := range 2 {
				for _, client := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.2"} {
					r, body := ask(t, p.nginx[pod].ClientFrom(net.ParseIP(client)), http.MethodGet, "http://127.0.0.1:8080"+path)
					if body != client || r.Header.Get("X-Cache") != "MISS" {
						t.Errorf("pod %d: %s gets the response for %q, %s", pod, client, body, r.Header.Get("X-Cache"))
					}
				}
			}
		})
	}
}
