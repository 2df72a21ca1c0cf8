package cache_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest/differential"
)

// knownFault is a fault of the product that is not mended yet. TestDifferential fails when it no longer finds it.
type knownFault struct {
	why string
	// isRare is true for a fault that a test may miss.
	isRare bool
	is     func(w differentialWay, f differential.Fault) bool
	found  atomic.Int64
	// once logs the first story.
	once sync.Once
}

// knownFaults are all of them.
var knownFaults = []*knownFault{}

// isKnown returns true for a known fault.
func isKnown(t *testing.T, w differentialWay, f differential.Fault) bool {
	t.Helper()
	for _, k := range knownFaults {
		if k.is(w, f) {
			k.found.Add(1)
			k.once.Do(func() { t.Logf("known: %s\n%v\n%s", k.why, f.Err, f.Story) })
			return true
		}
	}
	return false
}

// allKnownFound fails the test for each fault that is known and was not found.
func allKnownFound(t *testing.T) {
	t.Helper()
	for _, k := range knownFaults {
		if k.found.Load() == 0 && !k.isRare {
			t.Errorf("not found any more, so remove it from knownFaults: %s", k.why)
		}
	}
}
