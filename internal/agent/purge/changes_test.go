package purge_test

import (
	"testing"

	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestMakeStale makes an object stale as after a POST: nginx asks the origin for each variant, and no longer for those
// that are stored after that.
func TestMakeStale(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: true, size: 64Mi}\n  cache: {staleWhileRevalidate: 0s}\n")
	s.wants("MISS", 0, "/a/1", "/b/1")
	s.purge(purge.Target{Tags: []string{"none"}}, false) // the indexes have everything now
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
