package disk

import (
	"math/rand/v2"
	"testing"
	"time"
)

var limits = Thresholds{
	Interval: time.Second, Timeout: 2 * time.Second, Failures: 2, Successes: 3, MinFree: 20 << 20, MinFreeInodes: 1,
}

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// play feeds a second's sample for each word: ok, a Reason, or free:N for N MiB.
func play(s State, samples []Sample) State {
	for i, sample := range samples {
		sample.At = start.Add(time.Duration(i) * time.Second)
		s = s.Next(sample, limits)
	}
	return s
}

func samples(reasons ...Reason) []Sample {
	list := make([]Sample, len(reasons))
	for i, r := range reasons {
		list[i] = Sample{Reason: r, Message: "because", Usage: Usage{Size: 1 << 30, Free: 1 << 29, Inodes: 1000, FreeInodes: 500}}
	}
	return list
}

func free(mib int64, inodes uint64) Sample {
	return Sample{Usage: Usage{Size: 1 << 30, Free: mib << 20, Inodes: 1000, FreeInodes: inodes}}
}

func TestState(t *testing.T) {
	const ok = Reason("")
	tests := map[string]struct {
		samples    []Sample
		wantStatus Status
		wantReason Reason
	}{
		"nothing known":                        {nil, Starting, ""},
		"the first probe decides: good":        {samples(ok), Healthy, ""},
		"the first probe decides: bad":         {samples(Slow), Failed, Slow},
		"one error proves nothing":             {samples(ok, IOError), Healthy, ""},
		"two in a row do":                      {samples(ok, IOError, IOError), Failed, IOError},
		"errors of different kinds add up":     {samples(ok, Slow, IOError), Failed, IOError},
		"two that are not in a row do not":     {samples(ok, IOError, ok, IOError), Healthy, ""},
		"a shut-down file system is certain":   {samples(ok, Shutdown), Failed, Shutdown},
		"a read-only one too":                  {samples(ok, ReadOnly), Failed, ReadOnly},
		"it comes back":                        {samples(ok, ReadOnly, ok, ok, ok), Healthy, ""},
		"but not at once":                      {samples(ok, ReadOnly, ok, ok), Failed, ReadOnly},
		"and only after a row of good probes":  {samples(ok, ReadOnly, ok, ok, Slow, ok, ok), Failed, Slow},
		"a disk that flaps must prove more":    {samples(ok, ReadOnly, ok, ok, ok, ReadOnly, ok, ok, ok, ok, ok), Failed, ReadOnly},
		"twice as much":                        {samples(ok, ReadOnly, ok, ok, ok, ReadOnly, ok, ok, ok, ok, ok, ok), Healthy, ""},
		"just enough space":                    {append(samples(ok), free(20, 500)), Healthy, ""},
		"too little space":                     {append(samples(ok), free(19, 500)), Failed, Full},
		"more space, but not by half":          {append(samples(ok), free(19, 500), free(29, 500), free(29, 500), free(29, 500)), Failed, Full},
		"half as much space again":             {append(samples(ok), free(19, 500), free(30, 500), free(30, 500), free(30, 500)), Healthy, ""},
		"too few inodes":                       {append(samples(ok), free(500, 9)), Failed, NoInodes},
		"a file system without a fixed number": {append(samples(ok), Sample{Usage: Usage{Size: 1 << 30, Free: 1 << 29}}), Healthy, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := play(State{Status: Starting}, tt.samples)
			if got.Status != tt.wantStatus || got.Reason != tt.wantReason {
				t.Errorf("got %s for %q, want %s for %q", got.Status, got.Reason, tt.wantStatus, tt.wantReason)
			}
		})
	}
}

func TestMessageStands(t *testing.T) {
	s := play(State{Status: Starting}, samples("", Slow, Slow))
	later := Sample{At: start, Reason: Slow, Message: "no answer for 99s"}
	if got := s.Next(later, limits); got.Message != "because" {
		t.Errorf("the message is %q: each one would be news", got.Message)
	}
}

func TestFlappingIsForgotten(t *testing.T) {
	s := play(State{Status: Starting}, samples("", ReadOnly, "", "", "", ReadOnly, "", "", "", "", "", ""))
	s = s.Next(Sample{At: start.Add(time.Hour), Reason: ReadOnly}, limits)
	if got := s.needed(limits); got != limits.Successes {
		t.Errorf("an hour later it takes %d good probes, want %d", got, limits.Successes)
	}
}

// TestProperties holds random histories to what must always be so.
func TestProperties(t *testing.T) {
	reasons := []Reason{"", "", "", "", IOError, Slow, Corrupt, ReadOnly, Shutdown, Full}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		s, at := State{Status: Starting}, start
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
			case s.Status == Starting:
				t.Fatalf("seed %d: starting after a sample", seed)
			case (s.Reason == "") != (s.Status == Healthy):
				t.Fatalf("seed %d: %s for %q", seed, s.Status, s.Reason)
			case before.Status == Failed && s.Status == Healthy && good < limits.Successes:
				t.Fatalf("seed %d: back after %d good probes", seed, good)
			case before.Status == Healthy && s.Status == Failed && bad < limits.Failures && !sample.Reason.isCertain():
				t.Fatalf("seed %d: failed after %d bad probes", seed, bad)
			case bad >= limits.Failures && s.Status == Healthy:
				t.Fatalf("seed %d: healthy after %d bad probes", seed, bad)
			case s.needed(limits) > limits.Successes<<maxFlaps:
				t.Fatalf("seed %d: %d good probes are needed", seed, s.needed(limits))
			}
		}
	}
}

// always are thresholds that do not follow from the size.
func always(t Thresholds) Limits { return func(int64) Thresholds { return t } }
