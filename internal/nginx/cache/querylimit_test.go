package cache_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TestLargestQuery checks that nginx accepts the longest lists of arguments that the schema allows: 32 names with 1024
// characters together. In a regular expression, each character can become two. nginx accepts a regular expression of up
// to 4096 bytes.
func TestLargestQuery(t *testing.T) {
	t.Parallel()
	var names []v1alpha1.NamePattern
	for i := range 32 {
		names = append(names, v1alpha1.NamePattern(fmt.Sprintf("%s%02d*", strings.Repeat(".", 29), i)))
	}
	for name, q := range map[string]*v1alpha1.Query{"drop": {Drop: names}, "keep": {Keep: names}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t, func(http.ResponseWriter, *http.Request) {},
				func(spec *v1alpha1.CacheNodeSpec) { spec.Cache.Query = q })
			if r, _ := ask(t, n.Client(), http.MethodGet, "http://127.0.0.1:8080/?a=1"); r.StatusCode != http.StatusOK {
				t.Errorf("status %d", r.StatusCode)
			}
		})
	}
}
