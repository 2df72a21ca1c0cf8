package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestFillOfAnyPath checks that the gateway looks for an object on its former disk under the key that it was stored
// with, whatever characters the path has: the origin is not asked again.
func TestFillOfAnyPath(t *testing.T) {
	t.Parallel()
	two := strings.Replace(threeDisks, ", {name: disk3, size: 1Gi}", "", 1)
	for name, policy := range map[string]string{
		"as sent":     "{}",
		"decoded":     "{key: [Scheme, Host, URI, Args]}",
		"filtered":    "{query: {drop: [utm_source]}}",
		"both":        "{key: [Scheme, Host, URI, Args], query: {drop: [utm_source]}}",
		"by method":   "{key: [Method, Scheme, Host, RequestURI]}",
		"without any": "{key: [Scheme, Host, URI]}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPods(t, 1, two+"  cache: "+policy+"\n")
			asked := 0
			p.answers(func(w http.ResponseWriter, _ *http.Request) bool {
				asked++
				_, _ = io.WriteString(w, "an object")
				return true
			})
			get := func() (moved int) {
				for i := range 10 {
					for _, path := range []string{
						"/a%%20b/%d", "/100%%25/%d", "/a%%3Fb/%d?x=1&utm_source=a", "/%%C3%%BC/%d", "/a%%2Fb//c/../%d?x=%%0a",
						`/q"|\/%d`, "/x/%%2e%%2e/%d?", "/+%%2B/%d?a+b",
					} {
						r, body := ask(t, p.clients[0], http.MethodGet, "http://127.0.0.1:8080"+fmt.Sprintf(path, i))
						if r.StatusCode != http.StatusOK || body != "an object" {
							t.Fatalf("%s: %d %q", fmt.Sprintf(path, i), r.StatusCode, body)
						}
						if r.Header.Get("X-Cache") == "MISS" {
							moved++
						}
					}
				}
				return moved
			}
			get()
			before := 0
			p.locked(func() { before = asked })
			p.yaml = threeDisks + "  cache: " + policy + "\n"
			p.take(t, 0, aDiskMore())
			moved := get()
			p.locked(func() {
				if moved < 8 || asked != before {
					t.Errorf("%d objects have moved, and the origin was asked %d times more", moved, asked-before)
				}
			})
		})
	}
}
