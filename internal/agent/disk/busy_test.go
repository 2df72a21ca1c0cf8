package disk

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

func TestIsBusy(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	after := func(took time.Duration, reads, writes uint64) look {
		return look{at: begun.Add(took), reads: 1000 + reads, writes: 500 + writes, isKnown: true}
	}
	unknown := look{at: begun.Add(time.Second)}
	for name, tt := range map[string]struct {
		now     look
		reading bool
		want    bool
	}{
		"a hard disk that reads":                {after(2*time.Second, 240, 0), true, true},
		"one read a second":                     {after(2*time.Second, 2, 0), true, false},
		"it writes, and a read waits":           {after(2*time.Second, 2, 500), true, false},
		"it writes, and a write waits":          {after(2*time.Second, 2, 500), false, true},
		"it reads, and a write waits":           {after(2*time.Second, 240, 0), false, true},
		"nothing at all":                        {after(2*time.Second, 0, 0), false, false},
		"a device without counts":               {unknown, true, false},
		"a moment after it was seen to be busy": {after(0, 0, 0), true, true},
	} {
		if got := after(0, 0, 0).isBusy(tt.now, tt.reading); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
	if unknown.isBusy(after(2*time.Second, 240, 0), true) {
		t.Error("a device without counts at first counts as busy")
	}
}

// TestBusyDisk checks that a probe which takes long because the disk is busy does not fail the disk, unless it takes
// longer than any queue explains; and that one of a disk that does nothing does.
func TestBusyDisk(t *testing.T) {
	for name, tt := range map[string]struct {
		rate float64 // reads a second
		took time.Duration
		want v1alpha1.DiskState
	}{
		"busy":              {120, 10 * time.Second, v1alpha1.DiskHealthy},
		"hangs":             {1, 10 * time.Second, v1alpha1.DiskFailed},
		"busy, but no end":  {120, time.Hour, v1alpha1.DiskFailed},
		"in time, and idle": {0, time.Millisecond, v1alpha1.DiskHealthy},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMonitor(&Prober{}, always(limits))
				m.state.Status = v1alpha1.DiskHealthy
				begun := time.Now()
				m.look = func() look {
					return look{at: time.Now(), reads: uint64(tt.rate * time.Since(begun).Seconds()), isKnown: true}
				}
				ctx, cancel := context.WithCancel(t.Context())
				probing := make(chan struct{}, 1)
				m.sample = func(hasRead func()) Sample {
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
				time.Sleep(45 * time.Second) // of the test's own clock, which jumps
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
