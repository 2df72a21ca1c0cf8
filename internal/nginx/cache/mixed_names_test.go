package cache_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tagged is an origin that serves files in slices.
type tagged struct {
	mutex sync.Mutex
	asked int
	// ranges are the values of Range that the origin got.
	ranges []string
	// tag returns the entity tag for the response to a request. number is the number of the request.
	tag func(r *http.Request, number int) string
	// vary is the header Vary.
	vary string
}

func (o *tagged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.asked++
	o.ranges = append(o.ranges, r.Header.Get("Range"))
	w.Header().Set("Cache-Control", "max-age=600")
	w.Header().Set("ETag", fmt.Sprintf("%q", o.tag(r, o.asked)))
	if o.vary != "" {
		w.Header().Set("Vary", o.vary)
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("x", 4*mebi)))
}

// TestVariantsAreNoMix checks that the variants of a URL are still fetched in slices, although they have different
// entity tags. The variants differ by Vary, or by arguments that are in the key.
func TestVariantsAreNoMix(t *testing.T) {
	t.Parallel()
	const path = "/video"
	for name, tt := range map[string]struct {
		vary, policy string
		// variant returns the URL and a header.
		variant func(variant string) (string, string)
	}{
		"Vary":      {"Accept-Language", "", func(v string) (string, string) { return path, "Accept-Language: " + v }},
		"arguments": {"", "", func(v string) (string, string) { return path + "?v=" + v, "A: b" }},
		"arguments that count": {
			"", ", query: {drop: [x]}", func(v string) (string, string) { return path + "?x=1&v=" + v + "&x=2", "A: b" },
		},
		"arguments of a normalized path": {
			"", ", key: [Host, URI, Args]", func(v string) (string, string) { return path + "?v=" + v, "A: b" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &tagged{vary: tt.vary, tag: func(r *http.Request, _ int) string {
				return r.Header.Get("Accept-Language") + r.URL.Query().Get("v")
			}}
			n := oneNginx(t, o, "  cache: {slice: {size: 1Mi}"+tt.policy+"}\n")
			var want []string
			for i, variant := range []string{"de", "en", "de", "en"} {
				url, header := tt.variant(variant)
				first := fmt.Sprintf("Range: bytes=%d-%[1]d", i*mebi)
				ask(t, n.Client(), http.MethodGet, "http://127.0.0.1:8080"+url, header, first)
				want = append(want, slice(i))
			}
			o.mutex.Lock()
			defer o.mutex.Unlock()
			if diff := cmp.Diff(want, o.ranges); diff != "" {
				t.Errorf("asked of the origin (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMixedTagsOfEachKey checks that the gateway notes a file under the same name under which the cache looks it up.
// The test covers different kinds of keys.
func TestMixedTagsOfEachKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ policy, path string }{
		"default":                 {"", "/video"},
		"arguments":               {"", "/a%20video%3F?a=%20b&c"},
		"no host":                 {", key: [Scheme, RequestURI]", "/video?a=b"},
		"normalized":              {", key: [Host, URI]", "/a//b/../%61?a=b"},
		"normalized, arguments":   {", key: [URI, Args]", "/a//b/../%C3%A4?a=b"},
		"arguments that count":    {", query: {keep: [a]}", "/%C3%A4?b&a=b&c"},
		"normalized, those alone": {", query: {keep: [a]}, key: [Host, URI, Args]", "/a%3Fb?b&a=b&c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &tagged{tag: func(_ *http.Request, number int) string { return fmt.Sprint(number % 2) }}
			yaml := strings.Replace(threeDisks, "hosts: [www.example.com]", "hosts: [b.example.com, www.example.com]", 1)
			yaml = strings.Replace(yaml, "  origin:\n", "  origin:\n    hostHeader: origin.example.com\n", 1)
			n := nginxOf(t, o, yaml+"  cache: {slice: {size: 1Mi}"+tt.policy+"}\n")
			want := fmt.Sprint("200 ", 4*mebi, " ")
			for tries := 1; ; tries++ {
				if got := answerOf(t.Context(), n.Client(), "http://127.0.0.1:8080"+tt.path); strings.HasPrefix(got, want) {
					break
				}
				if tries == 10 {
					t.Fatalf("%d responses in a row were cut", tries)
				}
			}
			o.mutex.Lock()
			defer o.mutex.Unlock()
			if !slices.Contains(o.ranges, "") {
				t.Errorf("the origin was never asked for the whole, only for %q", o.ranges)
			}
		})
	}
}
