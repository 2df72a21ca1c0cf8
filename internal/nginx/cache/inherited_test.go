package cache_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
)

// TestInheritedLists checks each location that has its own proxy_pass_header or proxy_hide_header, because such a list
// replaces the list of the server. Every location must pass Date on. The locations @renewal and @patient add a
// Cache-Control of the gateway, so they must not pass on another one. No location may pass on headers with CacheNode's
// own names, except those in passedOnTwice. The servers that clients, pods and caches reach must have these names in
// their own lists too.
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
				if problem := serverList(server); problem != "" {
					t.Errorf("%s: %s", filepath.Base(golden), problem)
				}
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

// ownLists returns a text that says what is missing in the lists of a location; "" if nothing is missing or there are
// no lists.
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
	case len(hides) > 0 && !slices.Contains(passedOnTwice, location.words[1]):
		return ownNamesLeftOut(hides)
	}
	return ""
}

// passedOnTwice are the gateway's locations whose responses pass through another location of the gateway. The other
// location hides the headers.
var passedOnTwice = []string{"@expired", "@fetch", "@fetch_again", "@try"}

// ownNamesLeftOut returns a text with one of CacheNode's own names that a list lacks; "" if the list has all names.
func ownNamesLeftOut(hides []string) string {
	for _, name := range foreign {
		public := []string{"X-CacheNode-Shared", "X-CacheNode-Cache-Control", "X-Cache", "X-Cache-Disk", "X-Cache-Hop"}
		if !slices.Contains(public, name) && !slices.Contains(hides, name) {
			return "proxy_hide_header leaves out " + name
		}
	}
	return ""
}

// serverList returns a text that says what is missing in the server's own list (proxy_hide_header); "" if nothing is
// missing. A server that listens only on private addresses needs no list, and neither does a server that answers with a
// return directive of its own.
func serverList(server statement) string {
	var hides []string
	asks := false
	for _, s := range server.block {
		switch s.words[0] {
		case "proxy_hide_header":
			hides = append(hides, s.words[1])
		case "listen": // any other address belongs to a door or the gateway
			private := []string{strconv.Itoa(layout.PrivatePort), "unix:" + layout.PromoterSocket, "unix:" + layout.DisksSocket}
			asks = asks || !slices.Contains(private, s.words[1])
		case "return":
			return ""
		}
	}
	if !asks {
		return ""
	}
	return ownNamesLeftOut(hides)
}
