package reload

import (
	"testing"
	"time"
)

// TestStuckWorkers checks which old workers are killed. It simulates a caller of KillStuck that checks the workers
// every two seconds.
func TestStuckWorkers(t *testing.T) {
	type check struct {
		waits  bool
		sleeps int64
	}
	waiting := func(sleeps ...int64) []check {
		var list []check
		for _, n := range sleeps {
			list = append(list, check{true, n})
		}
		return list
	}
	for name, tt := range map[string]struct {
		checks []check
		want   bool
	}{
		"it hangs":                            {waiting(1000, 1000, 1000, 1000), true},
		"a disk that answers once a second":   {waiting(1000, 1002, 1004, 1006), true},
		"it hangs for a short time":           {waiting(1000, 1000, 1000), false},
		"it is busy with a disk that answers": {waiting(1000, 3000, 5000, 7000, 9000), false},
		"it serves slow clients": {
			[]check{{false, 1000}, {true, 1010}, {false, 1020}, {true, 1030}, {false, 1040}, {true, 1050}}, false,
		},
		"it is busy, and then hangs":             {waiting(1000, 3000, 3001, 3001, 3001), true},
		"it is idle for worker_shutdown_timeout": {make([]check, 40), true},
		"it is idle for less":                    {make([]check, 30), false},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
			worker := oldWorker{since: now}
			var stuck bool
			for _, c := range tt.checks {
				worker = worker.next(now, c.waits, c.sleeps)
				stuck = worker.isStuck(now, time.Minute)
				now = now.Add(2 * time.Second)
			}
			if stuck != tt.want {
				t.Errorf("stuck is %t, want %t", stuck, tt.want)
			}
		})
	}
}
