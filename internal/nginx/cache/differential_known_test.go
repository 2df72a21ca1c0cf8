package cache_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest/differential"
)

// knownFault is a fault of the product that is not fixed yet. TestDifferential fails if it no longer finds the fault.
type knownFault struct {
	why string
	// isRare is true for a fault that a test may miss.
	isRare bool
	is     func(w differentialWay, f differential.Fault) bool
	found  atomic.Int64
	// once is for logging only the first story of the fault.
	once sync.Once
}

// knownFaults are all known faults.
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

// allKnownFound makes the test fail for each known fault that was not found, unless the fault is rare.
func allKnownFound(t *testing.T) {
	t.Helper()
	for _, k := range knownFaults {
		if k.found.Load() == 0 && !k.isRare {
			t.Errorf("not found any more, so remove it from knownFaults: %s", k.why)
		}
	}
}
