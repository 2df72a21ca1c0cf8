package cache_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestHitForMissOfWhatIsNeverStored checks responses of the origin that nginx never stores, whatever Cache-Control
// says. Requests for such responses do not wait for each other. The first case is an object that cannot be fetched in
// slices: the response to the request for a slice leads to the stored whole object. The other cases are the origin's
// own redirect, and variants that nginx cannot distinguish.
func TestHitForMissOfWhatIsNeverStored(t *testing.T) {
	t.Parallel()
	const clients = 10
	const inSlices = "  cache: {slice: {size: 1Mi}}\n"
	for name, tt := range map[string]struct {
		lines, control string
		answer         http.HandlerFunc
		want           string
	}{
		"a weak tag": {inSlices, "max-age=600", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `W/"1"`)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("x", 1000)))
		}, "200 1000 HIT"},
		"an empty object": {inSlices, "max-age=600", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("Range") != "" {
				w.Header().Set("Content-Range", "bytes */0")
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			}
		}, "200 0 HIT"},
		"X-Accel-Redirect": {"", "no-store", func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.URL.Path, aside) {
				w.Header().Set("Cache-Control", "max-age=600")
				w.Header().Set("X-Accel-Redirect", aside)
			}
		}, "200 0 BYPASS"},
		"a Vary that is too long": {"", "max-age=600", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Vary"] = []string{"X-" + strings.Repeat("x", 64), strings.Repeat("y", 61)}
		}, "200 0 MISS"},
		"Vary: X-Forwarded-For": {"", "max-age=600", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Vary", "Accept, x-forwarded-for")
		}, "200 0 MISS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &crowd{control: tt.control, answer: tt.answer}
			n, url := oneNginx(t, c, tt.lines), "http://127.0.0.1:8080/page"
			c.next(1)
			ask(t, n.Client(), http.MethodGet, url) // stores the whole object
			for range 2 {
				all := c.next(clients)
				answers := several(t, clients, n.Client(), url)
				if diff := cmp.Diff(map[string]int{tt.want: clients}, answers()); diff != "" || c.came(all) != clients {
					t.Fatalf("%d of %d requests came to the origin together (-want +got):\n%s", c.came(all), clients, diff)
				}
			}
		})
	}
}
