package cache_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// differentialAmount defines how many cases TestDifferential plays on each way (see differentialWay).
//
// CACHENODE_TEST_DIFFERENTIAL is the total number of requests that the test sends, 10,000 by default, or a duration
// such as 2h. With a duration, the test begins with a random seed. CACHENODE_TEST_SEED is the seed of the first case.
// If only this variable is set, the test plays only this case.
type differentialAmount struct {
	// cases is the number of cases in a round. The first round begins with the case of seed. New rounds begin until the
	// time until.
	seed  uint64
	cases int
	until time.Time
	// isReplay is true if only one case is played.
	isReplay bool
}

// stepsOfCase is the number of steps in a case. About four of five are requests.
const stepsOfCase = 14

// remembered contains the seeds of cases that found a fault in the past. The other cases of a run, whose seeds count up
// from 1, do not find these faults.
var remembered = []uint64{1002, 1003, 1236, 5018, 5053, 5078, 20037, 20055, 20069, 30012}

func newDifferentialAmount(t *testing.T) (a differentialAmount) {
	t.Helper()
	requests := 10_000
	a.seed = 1
	amount, seed := os.Getenv("CACHENODE_TEST_DIFFERENTIAL"), os.Getenv("CACHENODE_TEST_SEED")
	if amount != "" {
		if d, err := time.ParseDuration(amount); err == nil {
			a.until, a.seed = time.Now().Add(d), uint64(rand.Uint32()) //nolint:forbidigo // a soak goes on for a time
		} else if requests, err = strconv.Atoi(amount); err != nil {
			t.Fatalf("CACHENODE_TEST_DIFFERENTIAL is %q: give a number of requests, or a time such as 2h", amount)
		}
	}
	a.cases = max(requests/len(differentialWays())/(stepsOfCase*4/5)-len(remembered), 1)
	if seed == "" {
		return a
	}
	var err error
	if a.seed, err = strconv.ParseUint(seed, 10, 64); err != nil {
		t.Fatalf("CACHENODE_TEST_SEED is %q: give a number", seed)
	}
	if amount == "" {
		a.cases, a.isReplay = 1, true
	}
	return a
}

// isOver returns true if the time until has passed, or if it is not set.
func (a differentialAmount) isOver() bool {
	return !time.Now().Before(a.until) //nolint:forbidigo // a soak goes on for a time
}

// seeds returns the seeds of the cases in the round that begins with the seed first.
func (a differentialAmount) seeds(first uint64) (all []uint64) {
	for i := range a.cases {
		all = append(all, first+uint64(i))
	}
	if !a.isReplay && first == a.seed {
		all = append(all, remembered...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
