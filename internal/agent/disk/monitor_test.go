package disk

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TestMonitorSeesReadsThatWait checks that a disk counts as a disk that makes reads wait even before the slow reads of
// a probe have ended. Slow writes do not count.
func TestMonitorSeesReadsThatWait(t *testing.T) {
	for name, tt := range map[string]struct {
		before        v1alpha1.DiskState
		reads, writes time.Duration
		want          bool
	}{
		"reads in time":                {v1alpha1.DiskHealthy, lateRead - time.Millisecond, 0, false},
		"reads that hang":              {v1alpha1.DiskHealthy, time.Hour, 0, true},
		"writes that hang":             {v1alpha1.DiskHealthy, time.Millisecond, time.Hour, false},
		"reads that hang, nobody else": {v1alpha1.DiskFailed, time.Hour, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMonitor(&Prober{}, always(limits))
				m.state.Status = tt.before
				probed := make(chan struct{})
				m.sample = func(_ context.Context, hasRead func()) Sample {
					defer close(probed)
					time.Sleep(tt.reads)
					hasRead()
					time.Sleep(tt.writes)
					return Sample{At: time.Now()}
				}
				var changes atomic.Int32
				m.Changed = func(State, State) { changes.Add(1) }
				ctx, cancel := context.WithCancel(t.Context())
				go m.Run(ctx)
				time.Sleep(2 * lateRead) // by synctest's clock, so the test does not really wait
				if got := m.State().Waits(time.Now()); got != tt.want {
					t.Errorf("waits is %t, want %t", got, tt.want)
				}
				if n := changes.Load(); n > 0 != tt.want {
					t.Errorf("%d changes were reported", n)
				}
				cancel()
				<-probed
			})
		})
	}
}
