package cache_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// TestInheritedLists checks each location with a proxy_pass_header or proxy_hide_header of its own, which replaces the
// list of its server: Date is passed on everywhere, and no location of the gateway that asks the origin passes on the
// headers that the gateway sets.
func TestInheritedLists(t *testing.T) {
	t.Parallel()
	for golden, file := range goldenFiles(t) {
		text, err := os.ReadFile(file)
		must(t, err)
		in := decode(t, text)
		in.Facts.Fleet = cache.Fleet{Fleet: handOver(), Certificate: certificateHash}
		config, err := cache.Render(in)
		must(t, err)
		for _, http := range parse(t, config.Text) {
			for _, server := range http.block {
				for _, location := range server.block {
					if server.words[0] != "server" || location.words[0] != "location" {
						continue
					}
					if problem := ownLists(location); problem != "" {
						t.Errorf("%s: %s: %s", filepath.Base(golden), strings.Join(location.words, " "), problem)
					}
				}
			}
		}
	}
}

// ownLists says what is missing in the lists of a location, if it has any.
func ownLists(location statement) string {
	lists := map[string][]string{}
	for _, s := range location.block {
		lists[s.words[0]] = append(lists[s.words[0]], s.words[1:]...)
	}
	passes, hides := lists["proxy_pass_header"], lists["proxy_hide_header"]
	switch {
	case len(passes) > 0 && !slices.Contains(passes, "Date"):
		return "proxy_pass_header leaves out Date"
	case slices.Contains([]string{"@renewal", "@patient"}, location.words[1]) &&
		len(hides) > 0 && !slices.Contains(hides, "Cache-Control"):
		return "proxy_hide_header leaves out Cache-Control"
	}
	return ""
}
