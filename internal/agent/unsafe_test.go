package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

func TestUnsafeURLs(t *testing.T) {
	t.Parallel()
	var u unsafeURLs
	now := time.UnixMilli(1000)
	for _, url := range []string{"a", "b", "a"} {
		u.add(url, now)
	}
	want := []agentapi.UnsafeURL{{Number: 1001, URL: "b"}, {Number: 1002, URL: "a"}}
	if diff := cmp.Diff(want, u.since(now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range 2 * agentapi.MaxUnsafe {
		u.add(fmt.Sprint(i), now)
	}
	if list := u.since(now); len(list) != agentapi.MaxUnsafe || list[len(list)-1].URL != "199" {
		t.Errorf("%d URLs are kept, the last one is %q", len(list), list[len(list)-1].URL)
	}
	for i := range 100 {
		u.add(strings.Repeat("x", 2000)+fmt.Sprint(i), now)
	}
	list, bytes := u.since(now), 0
	if old := u.since(now.Add(2 * recent)); len(old) > 0 {
		t.Errorf("%d URLs are reported after two minutes", len(old))
	}
	for _, one := range list {
		bytes += len(one.URL)
	}
	if bytes > agentapi.MaxUnsafeBytes || bytes < agentapi.MaxUnsafeBytes-2100 {
		t.Errorf("%d URLs with %d bytes are kept", len(list), bytes)
	}
}

func TestIsPlain(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"https://www.example.com/a?b=c":             true,
		"http://www.example.com?/a":                 false,
		"http://a@www.example.com/":                 false,
		"http:///a":                                 false,
		"http://www.example.com/a\nb":               false,
		"http://a.com/" + strings.Repeat("x", 3000): false,
	} {
		if got := isPlain(url); got != want {
			t.Errorf("%.50q: %t, want %t", url, got, want)
		}
	}
}
