package main

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestSpindle(t *testing.T) {
	const mebi = 1 << 20
	type access struct {
		offset int64
		size   int
	}
	tests := map[string]struct {
		accesses []access
		want     time.Duration
	}{
		"a seek, and the bytes":             {[]access{{mebi, mebi}}, 18 * time.Millisecond},
		"in sequence, one seek for both":    {[]access{{mebi, mebi}, {2 * mebi, mebi}}, 28 * time.Millisecond},
		"back to the start, two seeks":      {[]access{{mebi, mebi}, {0, mebi}}, 36 * time.Millisecond},
		"from the start of the disk":        {[]access{{0, mebi}}, 10 * time.Millisecond},
		"many small ones cost their seeks":  {[]access{{4 * mebi, 0}, {8 * mebi, 0}, {2 * mebi, 0}}, 24 * time.Millisecond},
		"a large one costs less than parts": {[]access{{mebi, 4 * mebi}}, 48 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := spindle{clock: clock.RealClock{}} // the bubble's
				s.set(8*time.Millisecond, 100*mebi)
				begun := time.Now()
				for _, a := range test.accesses {
					s.access(a.offset, a.size)
				}
				if got := time.Since(begun); got != test.want {
					t.Errorf("took %s, want %s", got, test.want)
				}
			})
		})
	}
}

func TestAccessesWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := spindle{clock: clock.RealClock{}}
		s.set(8*time.Millisecond, 0)
		begun := time.Now()
		var group sync.WaitGroup
		for i := range 5 {
			group.Go(func() { s.access(int64(i+1)<<30, 1) })
		}
		group.Wait()
		if got := time.Since(begun); got != 40*time.Millisecond {
			t.Errorf("five accesses at once took %s, want 40 ms", got)
		}
	})
}
