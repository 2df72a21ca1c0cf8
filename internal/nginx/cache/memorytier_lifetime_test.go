package cache_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TestCopiesLifetime checks for how long an object is copied into memory: for maxExtraAge, or for its own lifetime if
// that is shorter. The object is not copied if its lifetime is only some seconds, or is given as a date.
func TestCopiesLifetime(t *testing.T) {
	t.Parallel()
	const date = "Thu, 01 Jan 2037 00:00:00 GMT"
	control := func(value string) map[string]string { return map[string]string{"Cache-Control": value} }
	for name, test := range map[string]struct {
		headers map[string]string
		valid   v1alpha1.Duration
		want    string
	}{
		"max-age 1":              {control("max-age=1"), "1h", "0"},
		"max-age 9":              {control("public, Max-Age=9"), "1h", "0"},
		"max-age 010":            {control("max-age=010"), "1h", "10"},
		"max-age 12":             {control("public,max-age=12, immutable"), "1h", "12"},
		"max-age 30":             {control("max-age=30"), "1h", "30"},
		"max-age 31":             {control("max-age=31"), "1h", "30"},
		"max-age 300":            {control("max-age=300"), "1h", "30"},
		"max-age 1000":           {control("max-age=1000"), "1h", "30"},
		"the first max-age":      {control("max-age=12, max-age=300"), "1h", "12"},
		"only Expires":           {map[string]string{"Expires": date}, "1h", "0"},
		"max-age before Expires": {map[string]string{"Cache-Control": "max-age=300", "Expires": date}, "1h", "30"},
		"CDN-Cache-Control": {
			map[string]string{"CDN-Cache-Control": "max-age=5", "Cache-Control": "max-age=300"}, "1h", "0",
		},
		"X-Accel-Expires": {
			map[string]string{"X-Accel-Expires": "5", "Cache-Control": "max-age=300"}, "1h", "0",
		},
		"X-Accel-Expires, longer": {
			map[string]string{"X-Accel-Expires": "20", "Cache-Control": "max-age=1"}, "1h", "20",
		},
		"X-Accel-Expires, a date": {map[string]string{"X-Accel-Expires": "@2114380800"}, "1h", "0"},
		"neither":                 {nil, "1h", "30"},
		"neither, valid for 12s":  {nil, "12s", "12"},
		"neither, valid for 5s":   {nil, "5s", "0"},
		"another directive":       {control("public"), "1h", "30"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := startWith(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range test.headers {
					w.Header().Set(name, value)
				}
				_, _ = io.WriteString(w, "text")
			}, inMemory, func(spec *v1alpha1.CacheNodeSpec) {
				spec.MemoryTier.MaxExtraAge = "30s"
				spec.Cache.Valid = []v1alpha1.Validity{{Status: []v1alpha1.StatusCode{200}, For: test.valid}}
			})
			var got string
			becomes(t, "HIT", func() string { // an object that is fresh for a second may expire before the next request
				r, _ := ask(t, client, http.MethodGet, example)
				copied, _ := ask(t, client, http.MethodGet, "http://nginx-disks.sock/object")
				got = copied.Header.Get("X-Accel-Expires")
				return r.Header.Get("X-Cache")
			})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("seconds in memory (-want +got):\n%s", diff)
			}
		})
	}
}

// TestShortLivedStaysOnDisk checks that a live playlist does not get into memory while other objects do.
func TestShortLivedStaysOnDisk(t *testing.T) {
	t.Parallel()
	client := startWith(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age="+r.URL.Query().Get("seconds"))
		_, _ = io.WriteString(w, "text")
	}, inMemory)
	becomes(t, "HIT memory", func() string {
		for _, seconds := range []string{"1", "6"} {
			if r, _ := ask(t, client, http.MethodGet, example+"?seconds="+seconds); place(r) == "HIT memory" {
				t.Fatalf("an object that is fresh for %s s is in memory", seconds)
			}
		}
		r, _ := ask(t, client, http.MethodGet, example+"?seconds=60") // requested equally often
		return place(r)
	})
}
