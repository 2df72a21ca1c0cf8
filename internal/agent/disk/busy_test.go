package disk

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestIsBusy(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	after := func(took time.Duration, reads, writes uint64) look {
		return look{at: begun.Add(took), device: 5, reads: 1000 + reads, writes: 500 + writes, isKnown: true}
	}
	unknown, other := look{at: begun.Add(time.Second)}, after(time.Second, 240, 0)
	other.device = 6
	for name, tt := range map[string]struct {
		before, now look
		reading     bool
		want        bool
	}{
		"a hard disk that reads":         {after(0, 0, 0), after(2*time.Second, 240, 0), true, true},
		"one read a second":              {after(0, 0, 0), after(2*time.Second, 2, 0), true, false},
		"it writes, and a read waits":    {after(0, 0, 0), after(2*time.Second, 2, 500), true, false},
		"it writes, and a write waits":   {after(0, 0, 0), after(2*time.Second, 2, 500), false, true},
		"it reads, and a write waits":    {after(0, 0, 0), after(2*time.Second, 240, 0), false, true},
		"nothing at all":                 {after(0, 0, 0), after(2*time.Second, 0, 0), false, false},
		"no counts any more":             {after(0, 0, 0), unknown, true, false},
		"no counts at first":             {unknown, after(2*time.Second, 240, 0), true, false},
		"another device":                 {after(0, 0, 0), other, true, false},
		"counts that begin again from 0": {after(0, 240, 0), after(2*time.Second, 0, 0), true, false},
	} {
		if got := tt.before.isBusy(tt.now, tt.reading, 20); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// TestBusyDisk checks what happens if a probe takes long. If the disk is busy, the disk does not fail, unless the probe
// takes longer than any queue can explain. If the disk completes hardly any reads, the disk fails.
func TestBusyDisk(t *testing.T) {
	const healthy, failed = v1alpha1.DiskHealthy, v1alpha1.DiskFailed
	for name, tt := range map[string]struct {
		before v1alpha1.DiskState
		rate   float64 // reads a second
		took   time.Duration
		want   v1alpha1.DiskState
	}{
		"busy":                             {healthy, 120, 10 * time.Second, healthy},
		"busy when the agent starts":       {v1alpha1.DiskStarting, 120, 10 * time.Second, healthy},
		"hangs":                            {healthy, 1, 10 * time.Second, failed},
		"busy, but no end":                 {healthy, 120, time.Hour, failed},
		"in time, and idle":                {healthy, 0, time.Millisecond, healthy},
		"busy with nothing of nginx's own": {failed, 120, 10 * time.Second, failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMonitor(&Prober{}, always(limits))
				m.state.Status = tt.before
				begun := time.Now()
				var asked atomic.Bool
				m.look = func() look { // at the first look, the device is not known yet
					return look{
						at: time.Now(), reads: uint64(tt.rate * time.Since(begun).Seconds()), isKnown: asked.Swap(true),
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				probing := make(chan struct{}, 1)
				m.sample = func(_ context.Context, hasRead func()) Sample {
					probing <- struct{}{}
					defer func() { <-probing }()
					sampled := time.Now()
					select {
					case <-time.After(tt.took):
					case <-ctx.Done():
					}
					hasRead()
					return Sample{At: time.Now(), Latency: time.Since(sampled)}
				}
				go m.Run(ctx)
				time.Sleep(45 * time.Second) // by synctest's clock, so the test does not really wait
				if got := m.State(); got.Status != tt.want {
					t.Errorf("the disk is %s (%s), want %s", got.Status, got.Message, tt.want)
				}
				cancel()
				probing <- struct{}{}
			})
		})
	}
}

// TestLookAt checks the counts of a device of this machine.
func TestLookAt(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var major, minor uint32
		var name string
		var reads, merges, sectors, ticks, writes uint64
		if _, err := fmt.Sscan(line, &major, &minor, &name, &reads, &merges, &sectors, &ticks, &writes); err != nil {
			t.Fatal(err)
		}
		got := lookAt(unix.Mkdev(major, minor))
		if !got.isKnown || got.reads < reads || got.writes < writes {
			t.Errorf("%s: %+v, want at least %d reads and %d writes", name, got, reads, writes)
		}
	}
	if got := lookAt(0); got.isKnown {
		t.Errorf("device 0 has counts: %+v", got)
	}
}
