package purge_test

import (
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestSweepRules checks when a disk may be swept.
func TestSweepRules(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	may := func() bool { _, ok := s.purger.SweepRules("disk1", 0); return ok }
	s.purger.SetInUse([]string{"disk1"}, nil)
	s.purge(purge.Target{URLs: []string{url("/none")}}, false) // after this purge, the index is complete
	if may() {
		t.Error("there are no rules yet, and the disk may be swept")
	}
	s.purger.SetRules(sweep.Rules{Stale: time.Hour})
	await.True(t, "the disk may not be swept", may)
	if r, _ := s.purger.SweepRules("disk1", 0); r.Stale != time.Hour || r.Since.IsZero() {
		t.Errorf("the rules are %+v", r)
	}
	s.purger.SetInUse(nil, nil)
	if may() {
		t.Error("nginx does not use the disk, and it may be swept")
	}
	s.purger.SetInUse([]string{"disk1"}, nil)
	s.usable.Store(false)
	if may() {
		t.Error("the disk has failed, and may be swept")
	}
	s.usable.Store(true)
	await.True(t, "the disk may not be swept when it is back", may)
	if _, ok := s.purger.SweepRules("disk1", 1); ok {
		t.Error("a purge is behind, and the disk may be swept")
	}
}
