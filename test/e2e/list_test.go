package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	listing "github.com/cachenode/cachenode-operator/internal/objects"
)

// listsWhatIsCached compares what the plugin lists with what was fetched, and with what a purge then removes.
func listsWhatIsCached(t *testing.T, s *suite) {
	purgeAll(t, []string{"--all"}, "--wait", "settled") // until then, nothing stays
	s.target(t, name+"-0").warm(t, versioned)
	const folder = "/versions/t3/"
	prefix := "http://" + name + folder
	var want int
	for _, path := range versioned {
		if strings.HasPrefix(path, folder) {
			want++
		}
	}
	for _, how := range [][]string{{"--prefix", prefix}, {"--tag", "t3"}, {"--tag", "t3", "--prefix", prefix}} {
		n := 0
		for line := range strings.Lines(plugin(t, "", append([]string{"ls", name, "-o", "json"}, how...)...)) {
			if !strings.HasPrefix(line, "{") { // what the plugin says on standard error
				continue
			}
			var o struct {
				listing.Object
				Where []string
			}
			must(t, json.Unmarshal([]byte(line), &o))
			if !strings.HasPrefix(o.Key, prefix) || len(o.Where) == 0 || o.Bytes == 0 {
				t.Errorf("%s: %+v", how, o)
			}
			n++
		}
		if n != want {
			t.Errorf("%s: %d objects are listed, want %d", how, n, want)
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
