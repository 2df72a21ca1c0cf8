package cache_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// TestJSONLogOverHops checks that a line shows how another pod got the response, which pod that was, and how long it
// took. The time of the pod must not appear as the time of the origin.
func TestJSONLogOverHops(t *testing.T) {
	t.Parallel()
	p := newPods(t, 2, sharded("  memoryTier: {enabled: false}\n  logs: {access: Stdout, format: JSON}\n"))
	own := func() string {
		for i := 0; ; i++ {
			if path := fmt.Sprintf("/own/%d", i); ownerOf(t, fleet.Of(2), path) == 0 {
				return path
			}
		}
	}()
	other := ownedBySecond(t, "/other")
	p.get(t, 0, own)
	p.nginx[0].Cached("http://www.example.com"+own, "disk1", "disk2")
	p.get(t, 0, own)
	p.get(t, 0, other)
	p.nginx[1].Cached("http://www.example.com"+other, "disk1", "disk2")
	p.get(t, 0, other)

	seconds := regexp.MustCompile(`^[0-9]+[.][0-9]{3}$`)
	var got []string
	for _, line := range loggedLines(t, p.nginx[0], 4) {
		if len(line) != len(cache.LogFields) {
			t.Errorf("%d fields, want %d: %v", len(line), len(cache.LogFields), line)
		}
		text := fmt.Sprint(line["uri"], " ", line["hop"], " ", line["cache"])
		for _, field := range []string{"originSeconds", "hopSeconds"} {
			if seconds.MatchString(fmt.Sprint(line[field])) {
				text += " " + field
			} else if line[field] != "" {
				t.Errorf("%s is %v", field, line[field])
			}
		}
		got = append(got, text)
	}
	want := []string{
		own + " none MISS originSeconds", own + " none HIT",
		other + " peer MISS hopSeconds", other + " peer HIT hopSeconds",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if strings.Contains(p.nginx[1].Log(), `{"time"`) {
		t.Error("the pod that was asked by another pod has logged the request too")
	}
}

// loggedLines waits for the given number of lines in the JSON access log, and parses them.
func loggedLines(t *testing.T, n *nginxtest.Nginx, count int) (lines []map[string]any) {
	t.Helper()
	becomes(t, "enough lines", func() string { // the log comes from another process
		lines = nil
		for line := range strings.Lines(n.Log()) {
			if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "\n") {
				continue
			}
			fields := map[string]any{}
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			lines = append(lines, fields)
		}
		if len(lines) < count {
			return fmt.Sprintf("%d lines, want %d:\n%s", len(lines), count, n.Log())
		}
		return "enough lines"
	})
	return lines
}
