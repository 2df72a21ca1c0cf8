package cache_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// differentialAmount is how much TestDifferential tries on each way.
//
// CACHENODE_TEST_DIFFERENTIAL is how many requests it sends in all, 10,000 by default, or how long it goes on, such as
// 2h: then it begins with a random seed. CACHENODE_TEST_SEED is the seed of the first case; without the other variable,
// only that case is played.
type differentialAmount struct {
	// cases are so many, beginning with that of the seed, and again until a time has come.
	seed  uint64
	cases int
	until time.Time
	// isReplay is true if only one case is played.
	isReplay bool
}

// stepsOfCase is how many steps a case has. About four of five are requests.
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

// isOver returns true when the time has come, or if there is none.
func (a differentialAmount) isOver() bool {
	return !time.Now().Before(a.until) //nolint:forbidigo // a soak goes on for a time
}

// seeds returns the seeds of the cases that are played at once.
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
