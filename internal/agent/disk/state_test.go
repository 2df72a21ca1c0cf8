package disk

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

var limits = Thresholds{
	BusyRate: 20,
	Interval: time.Second, Timeout: 2 * time.Second, Failures: 2, Successes: 3, MinFree: 20 << 20, MinFreeInodes: 1,
}

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// play applies samples that are one second apart.
func play(s State, samples []Sample) State {
	for i, sample := range samples {
		sample.At = start.Add(time.Duration(i) * time.Second)
		s = s.Next(sample, limits)
	}
	return s
}

func samples(reasons ...v1alpha1.DiskReason) []Sample {
	list := make([]Sample, len(reasons))
	for i, r := range reasons {
		usage := Usage{Size: 1 << 30, Free: 1 << 29, Inodes: 1000, FreeInodes: 500}
		list[i] = Sample{Reason: r, Message: "because", Usage: usage}
	}
	return list
}

func free(mib int64, inodes uint64) Sample {
	return Sample{Usage: Usage{Size: 1 << 30, Free: mib << 20, Inodes: 1000, FreeInodes: inodes}}
}

func TestStateNeedsSeveralProbesToChange(t *testing.T) {
	const ok = v1alpha1.DiskReason("")
	tests := map[string]struct {
		samples    []Sample
		wantStatus v1alpha1.DiskState
		wantReason v1alpha1.DiskReason
	}{
		"nothing known":                 {nil, v1alpha1.DiskStarting, ""},
		"the first probe decides: good": {samples(ok), v1alpha1.DiskHealthy, ""},
		"the first probe decides: bad":  {samples(v1alpha1.DiskSlow), v1alpha1.DiskFailed, v1alpha1.DiskSlow},
		"one error proves nothing":      {samples(ok, v1alpha1.DiskIOError), v1alpha1.DiskHealthy, ""},
		"two in a row do": {
			samples(ok, v1alpha1.DiskIOError, v1alpha1.DiskIOError), v1alpha1.DiskFailed, v1alpha1.DiskIOError,
		},
		"errors of different kinds add up": {
			samples(ok, v1alpha1.DiskSlow, v1alpha1.DiskIOError), v1alpha1.DiskFailed, v1alpha1.DiskIOError,
		},
		"two that are not in a row do not": {
			samples(ok, v1alpha1.DiskIOError, ok, v1alpha1.DiskIOError), v1alpha1.DiskHealthy, "",
		},
		"a shut-down file system is certain": {
			samples(ok, v1alpha1.DiskShutdown), v1alpha1.DiskFailed, v1alpha1.DiskShutdown,
		},
		"a read-only one too": {
			samples(ok, v1alpha1.DiskReadOnly), v1alpha1.DiskFailed, v1alpha1.DiskReadOnly,
		},
		"it comes back": {samples(ok, v1alpha1.DiskReadOnly, ok, ok, ok), v1alpha1.DiskHealthy, ""},
		"but not at once": {
			samples(ok, v1alpha1.DiskReadOnly, ok, ok), v1alpha1.DiskFailed, v1alpha1.DiskReadOnly,
		},
		"and only after a row of good probes": {
			samples(ok, v1alpha1.DiskReadOnly, ok, ok, v1alpha1.DiskSlow, ok, ok), v1alpha1.DiskFailed, v1alpha1.DiskSlow,
		},
		"a disk that flaps must prove more": {
			samples(ok, v1alpha1.DiskReadOnly, ok, ok, ok, v1alpha1.DiskReadOnly, ok, ok, ok, ok, ok),
			v1alpha1.DiskFailed, v1alpha1.DiskReadOnly,
		},
		"twice as much": {
			samples(ok, v1alpha1.DiskReadOnly, ok, ok, ok, v1alpha1.DiskReadOnly, ok, ok, ok, ok, ok, ok),
			v1alpha1.DiskHealthy, "",
		},
		"just enough space": {append(samples(ok), free(20, 500)), v1alpha1.DiskHealthy, ""},
		"too little space":  {append(samples(ok), free(19, 500)), v1alpha1.DiskFailed, v1alpha1.DiskFull},
		"more space, but not by half": {
			append(samples(ok), free(19, 500), free(29, 500), free(29, 500), free(29, 500)),
			v1alpha1.DiskFailed, v1alpha1.DiskFull,
		},
		"half as much space again": {
			append(samples(ok), free(19, 500), free(30, 500), free(30, 500), free(30, 500)), v1alpha1.DiskHealthy, "",
		},
		"too few inodes": {
			append(samples(ok), free(500, 9)), v1alpha1.DiskFailed, v1alpha1.DiskNoInodes,
		},
		"more inodes, but not by half": {
			append(samples(ok), free(500, 9), free(500, 14), free(500, 14), free(500, 14)),
			v1alpha1.DiskFailed, v1alpha1.DiskNoInodes,
		},
		"half as many inodes again": {
			append(samples(ok), free(500, 9), free(500, 15), free(500, 15), free(500, 15)), v1alpha1.DiskHealthy, "",
		},
		"a file system without a fixed number": {
			append(samples(ok), Sample{Usage: Usage{Size: 1 << 30, Free: 1 << 29}}), v1alpha1.DiskHealthy, "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := play(State{Status: v1alpha1.DiskStarting}, tt.samples)
			if got.Status != tt.wantStatus || got.Reason != tt.wantReason {
				t.Errorf("got %s for %q, want %s for %q", got.Status, got.Reason, tt.wantStatus, tt.wantReason)
			}
		})
	}
}

func TestMessageStands(t *testing.T) {
	s := play(State{Status: v1alpha1.DiskStarting}, samples("", v1alpha1.DiskSlow, v1alpha1.DiskSlow))
	later := Sample{At: start, Reason: v1alpha1.DiskSlow, Message: "no answer for 99s"}
	if got := s.Next(later, limits); got.Message != "because" {
		t.Errorf("the message is %q: each one would be news", got.Message)
	}
}

// TestMessageOfADiskThatRecovers checks the message of a failed disk. After a good probe, the message no longer
// contains the cause of the failure. After another failed probe, the message contains the cause again.
func TestMessageOfADiskThatRecovers(t *testing.T) {
	t.Parallel()
	s := play(State{Status: v1alpha1.DiskStarting}, samples(v1alpha1.DiskForeignCache, ""))
	want := fmt.Sprintf("passed the last probe: it is used again after %d in a row", limits.Successes)
	if s.Status != v1alpha1.DiskFailed || s.Message != want {
		t.Errorf("%s: %q, want %q", s.Status, s.Message, want)
	}
	if s = s.Next(samples(v1alpha1.DiskForeignCache)[0], limits); s.Message != "because" {
		t.Errorf("after another failure, it says %q", s.Message)
	}
}

func TestFlappingIsForgotten(t *testing.T) {
	s := play(State{Status: v1alpha1.DiskStarting}, samples(
		"", v1alpha1.DiskReadOnly, "", "", "", v1alpha1.DiskReadOnly, "", "", "", "", "", ""))
	s = s.Next(Sample{At: start.Add(time.Hour), Reason: v1alpha1.DiskReadOnly}, limits)
	if got := s.needed(limits); got != limits.Successes {
		t.Errorf("an hour later it takes %d good probes, want %d", got, limits.Successes)
	}
}

// TestStatesOnRandomHistories checks invariants of a disk's states on random sequences of samples.
func TestStatesOnRandomHistories(t *testing.T) {
	reasons := []v1alpha1.DiskReason{
		"", "", "", "", v1alpha1.DiskIOError, v1alpha1.DiskSlow, v1alpha1.DiskCorrupt,
		v1alpha1.DiskReadOnly, v1alpha1.DiskShutdown, v1alpha1.DiskFull,
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		s, at := State{Status: v1alpha1.DiskStarting}, start
		good, bad := 0, 0
		for range 300 {
			at = at.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
			sample := samples(reasons[random.IntN(len(reasons))])[0]
			sample.At = at
			before := s
			s = s.Next(sample, limits)
			if sample.Reason == "" {
				good, bad = good+1, 0
			} else {
				good, bad = 0, bad+1
			}
			switch {
			case s.Status == v1alpha1.DiskStarting:
				t.Fatalf("seed %d: starting after a sample", seed)
			case (s.Reason == "") != (s.Status == v1alpha1.DiskHealthy):
				t.Fatalf("seed %d: %s for %q", seed, s.Status, s.Reason)
			case before.Status == v1alpha1.DiskFailed && s.Status == v1alpha1.DiskHealthy && good < limits.Successes:
				t.Fatalf("seed %d: back after %d good probes", seed, good)
			case before.Status == v1alpha1.DiskHealthy && s.Status == v1alpha1.DiskFailed &&
				bad < limits.Failures && !isCertain(sample.Reason):
				t.Fatalf("seed %d: failed after %d bad probes", seed, bad)
			case bad >= limits.Failures && s.Status == v1alpha1.DiskHealthy:
				t.Fatalf("seed %d: healthy after %d bad probes", seed, bad)
			case s.needed(limits) > limits.Successes<<maxFlaps:
				t.Fatalf("seed %d: %d good probes are needed", seed, s.needed(limits))
			}
		}
	}
}

// always returns limits that do not depend on the size.
func always(t Thresholds) Limits { return func(int64) Thresholds { return t } }

// TestWaits checks when a disk counts as one that makes reads wait.
func TestWaits(t *testing.T) {
	fast := Sample{Latency: 20 * time.Millisecond, Read: time.Millisecond}
	for name, tt := range map[string]struct {
		samples []Sample
		after   time.Duration
		want    bool
	}{
		"nothing known":                {nil, 0, false},
		"a fast disk":                  {[]Sample{fast, fast}, 0, false},
		"reads as of a hard disk":      {[]Sample{{Read: slowRead}, fast}, time.Minute, true},
		"a write that takes long":      {[]Sample{{Latency: time.Second, Read: time.Millisecond}}, 0, false},
		"a disk that fails at once":    {[]Sample{{Reason: v1alpha1.DiskShutdown}}, 0, false},
		"ten minutes later":            {[]Sample{{Read: slowRead}, fast}, calm, false},
		"ten minutes after the latest": {[]Sample{{Read: slowRead}, fast, {Read: slowRead}}, calm, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := play(State{}, tt.samples).Waits(start.Add(tt.after)); got != tt.want {
				t.Errorf("waits is %t, want %t", got, tt.want)
			}
		})
	}
}
