package purge_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	agentpurge "github.com/cachenode/cachenode-operator/internal/agent/purge"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestMakeStale makes an object stale, as the agent does after a POST. nginx then asks the origin for each variant of
// the object. Variants that nginx stores after that are served from the cache.
func TestMakeStale(t *testing.T) {
	t.Parallel()
	s := newSite(t, nginxtest.MemoryTier("")+"  cache: {staleWhileRevalidate: 0s}\n")
	s.wants("MISS", 0, "/a/1", "/b/1")
	s.purge(purge.Target{Tags: []string{"none"}}, false) // after this purge, the indexes are complete
	s.publish()
	s.purger.MakeStale("https://" + host + "/a/1")
	await.True(t, "the object is not asked for", func() bool {
		_, version := s.get("/a/1", "phone")
		return version == 1
	})
	for _, device := range []string{"phone", "desk"} {
		await.True(t, "the new object is not cached", func() bool {
			status, version := s.get("/a/1", device)
			if version != 1 && device == "phone" {
				t.Errorf("%s of version %d", status, version)
			}
			return status == "HIT" && version == 1
		})
	}
	s.wants("HIT", 0, "/b/1")
}

// TestLooksAgain checks that a stale URL is made stale in the memory tier a second time, two seconds later. It also
// checks that the number of waiting URLs stays limited.
func TestLooksAgain(t *testing.T) {
	t.Parallel()
	p := agentpurge.New(slog.New(slog.DiscardHandler), t.TempDir()+"/purges")
	fake := clocktesting.NewFakeClock(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
	p.Clock = fake
	p.MakeStale("a")
	fake.Step(time.Second)
	p.MakeStale("b")
	if diff := cmp.Diff([]string{"a", "b"}, p.Changes()); diff != "" {
		t.Errorf("after a second (-want +got):\n%s", diff)
	}
	fake.Step(time.Second)
	want := []string{"a", "b", "in memory: a"}
	if diff := cmp.Diff(want, p.Changes()); diff != "" {
		t.Errorf("after two seconds (-want +got):\n%s", diff)
	}
	fake.Step(time.Hour)
	if diff := cmp.Diff(append(want, "in memory: b"), p.Changes()); diff != "" {
		t.Errorf("after an hour (-want +got):\n%s", diff)
	}
	const most = 1024
	for i := range 2 * most {
		p.MakeStale(fmt.Sprint(i))
	}
	fake.Step(time.Hour)
	if urls := p.Changes(); len(urls) != most || urls[0] != fmt.Sprint("in memory: ", most) {
		t.Errorf("%d URLs are kept, the first is %q", len(urls), urls[0])
	}
}
