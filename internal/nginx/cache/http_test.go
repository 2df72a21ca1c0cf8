package cache_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// start runs an origin, and nginx with the spec threeDisks after the given changes.
func start(t *testing.T, handler http.HandlerFunc, changes ...func(*v1alpha1.CacheNodeSpec)) *nginxtest.Nginx {
	t.Helper()
	return startEdited(t, asRendered, handler, changes...)
}

// startEdited does the same as start, but edit changes the rendered configuration.
func startEdited(
	t *testing.T, edit func(text string) string, handler http.HandlerFunc, changes ...func(*v1alpha1.CacheNodeSpec),
) *nginxtest.Nginx {
	t.Helper()
	n := nginxtest.New(t)
	in := decode(t, []byte(threeDisks))
	for _, change := range changes {
		change(&in.Spec)
	}
	if in.Spec.Listen.TLS != nil {
		in.Facts.Certificate = certificateHash
	}
	config, err := cache.Render(in)
	must(t, err)
	n.Configure(edit(config.Text), "disk1", "disk2", "disk3")
	if strings.Contains(config.Text, layout.MemoryTierDir) {
		n.Mkdir(layout.MemoryTierDir)
	}
	if in.Spec.Listen.TLS != nil {
		writeCertificate(t, n)
	}
	n.Serve("127.0.0.1:9000", handler)
	n.Start()
	return n
}

// startWith does the same as start, for tests that only need a client.
func startWith(t *testing.T, handler http.HandlerFunc, changes ...func(*v1alpha1.CacheNodeSpec)) *http.Client {
	t.Helper()
	return start(t, handler, changes...).Client()
}

const example = "http://127.0.0.1:8080/object"

func TestStoredObjectsAnswerRanges(t *testing.T) {
	t.Parallel()
	client := startWith(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "0123456789") })
	ask(t, client, http.MethodGet, example)
	r, body := ask(t, client, http.MethodGet, example, "Range: bytes=3-5")
	if r.StatusCode != http.StatusPartialContent || body != "345" || r.Header.Get("X-Cache") != "HIT" {
		t.Errorf("status %d, %q, X-Cache %s; want bytes 3 to 5 of a HIT", r.StatusCode, body, r.Header.Get("X-Cache"))
	}
}

// TestIfModifiedSince checks that a date later than Last-Modified means "not modified" too, and that a later date does
// not outweigh an entity tag that does not match.
func TestIfModifiedSince(t *testing.T) {
	t.Parallel()
	const modified, later, earlier = "Mon, 23 Nov 2026 10:00:00 GMT", "Mon, 23 Nov 2026 11:00:00 GMT",
		"Mon, 23 Nov 2026 09:00:00 GMT"
	client := startWith(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Last-Modified", modified)
		w.Header().Set("ETag", `"a"`)
		_, _ = io.WriteString(w, "text")
	})
	ask(t, client, http.MethodGet, example)
	for headers, want := range map[string]int{
		"If-Modified-Since: " + later:                              http.StatusNotModified,
		"If-Modified-Since: " + modified:                           http.StatusNotModified,
		"If-Modified-Since: " + earlier:                            http.StatusOK,
		"If-None-Match: \"b\"\nIf-Modified-Since: " + later:        http.StatusOK,
		"If-None-Match: \"b\", \"a\"\nIf-Modified-Since: " + later: http.StatusNotModified,
	} {
		if r, _ := ask(t, client, http.MethodGet, example, strings.Split(headers, "\n")...); r.StatusCode != want {
			t.Errorf("%q: status %d, want %d", headers, r.StatusCode, want)
		}
	}
}

func TestVaryWithAStarIsNotStored(t *testing.T) {
	t.Parallel()
	var vary string
	client := startWith(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Vary", vary)
		_, _ = io.WriteString(w, "text")
	})
	for value, want := range map[string]string{
		"*": "MISS", "*, Foo": "MISS", "Foo, *": "MISS", "Foo,*": "MISS", "Foo": "HIT", "Foo*": "HIT",
	} {
		vary = value
		url := example + "/" + strings.NewReplacer("*", "star", " ", "_").Replace(value)
		ask(t, client, http.MethodGet, url)
		if r, _ := ask(t, client, http.MethodGet, url); r.Header.Get("X-Cache") != want {
			t.Errorf("Vary: %s: X-Cache %s, want %s", value, r.Header.Get("X-Cache"), want)
		}
	}
}

func TestDateIsTheOrigins(t *testing.T) {
	t.Parallel()
	const date = "Mon, 23 Nov 2026 10:00:00 GMT"
	client := startWith(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date)
		_, _ = io.WriteString(w, "text")
	})
	for _, want := range []string{"MISS", "HIT"} {
		r, _ := ask(t, client, http.MethodGet, example)
		if got := r.Header.Get("Date"); got != date || r.Header.Get("X-Cache") != want {
			t.Errorf("%s: Date is %s, want %s", r.Header.Get("X-Cache"), got, date)
		}
	}
}
