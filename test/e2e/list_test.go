package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	listing "github.com/cachenode/cachenode-operator/internal/objects"
)

// listed returns the objects that the plugin lists.
func listed(t *testing.T, how ...string) (list []listing.Object) {
	t.Helper()
	for line := range strings.Lines(plugin(t, "", append([]string{"ls", name, "-o", "json"}, how...)...)) {
		if !strings.HasPrefix(line, "{") { // the line is from the plugin's standard error
			continue
		}
		var o listing.Object
		must(t, json.Unmarshal([]byte(line), &o))
		list = append(list, o)
	}
	return list
}

// listsWhatIsCached compares the plugin's list of cached objects with the objects that were fetched. It also checks
// that a purge removes objects from the list.
func listsWhatIsCached(t *testing.T, s *suite) {
	const folder = "/versions/t3/"
	prefix := "http://" + name + folder
	within(t, 30*time.Second, func() string { // objects stored right after the end of the last purge do not stay
		s.target(t, name+"-0").warm(t, versioned)
		if n := len(listed(t)); n != len(versioned) {
			return fmt.Sprintf("%d objects are listed, want %d", n, len(versioned))
		}
		return ""
	})
	for _, how := range [][]string{{"--prefix", prefix}, {"--tag", "t3"}, {"--tag", "t3", "--prefix", prefix}} {
		list := listed(t, how...)
		if len(list) != len(versioned)/groups {
			t.Errorf("%s: %d objects are listed, want %d", how, len(list), len(versioned)/groups)
		}
		for _, o := range list {
			if !strings.HasPrefix(o.Key, prefix) || o.Bytes == 0 || o.Files == 0 {
				t.Errorf("%s: %+v", how, o)
			}
		}
	}
	t.Logf("\n%s", plugin(t, "", "ls", name, "--prefix", prefix, "--sort", "size", "--limit", "3"))
	text := plugin(t, "", "du", name, "--depth", "2")
	t.Logf("\n%s", text)
	if !strings.Contains(text, prefix) {
		t.Errorf("du does not show %s", prefix)
	}
	dry := purgeAll(t, []string{"--prefix", prefix}, "--dry-run")
	t.Logf("\n%s", dry)
	done := purgeAll(t, []string{"--prefix", prefix}, "--wait", "settled")
	t.Log(done)
	if text := plugin(t, "", "ls", name, "--prefix", prefix); strings.Contains(text, folder) {
		t.Errorf("after the purge, the plugin lists\n%s", text)
	}
}
