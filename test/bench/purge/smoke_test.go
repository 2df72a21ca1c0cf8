package main

import (
	"os/exec"
	"testing"
	"time"
)

// TestBenchmarkChecksItself runs some cases in a short form. It checks the results, but not the times.
func TestBenchmarkChecksItself(t *testing.T) {
	t.Chdir("../../..")
	o := options{
		rounds: 1, times: 3, objects: 200, checked: 50, files: 20_000, rate: 50,
		window: time.Second, seconds: time.Second, systems: "cachenode",
	}
	o.self = t.TempDir() + "/purge"
	build := exec.Command("go", "-C", "test/bench", "build", "-o", o.self, "./purge")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	t.Run("urls", func(t *testing.T) {
		r, err := urls(o)
		if err != nil || len(r.Samples) != 2 {
			t.Fatalf("%+v (%v), want samples of one pod and of three", r, err)
		}
		for _, s := range r.Samples {
			if s.Hits != 0 || s.Fresh.Count != 3 || s.Fresh.P50 < s.Answered.P50 {
				t.Errorf("%+v", s)
			}
		}
	})
	for _, kind := range []string{"tag", "prefix"} {
		t.Run(kind, func(t *testing.T) {
			r, err := bulk(o, kind)
			if err != nil || len(r.Samples) != 1 {
				t.Fatalf("%+v (%v)", r, err)
			}
			s := r.Samples[0]
			if s.Hits != 0 || s.Checked != 50 || s.Before.Count == 0 || s.During.Count == 0 || s.MemoryPeak == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
	t.Run("rate", func(t *testing.T) {
		r, err := atRate(o)
		if err != nil || len(r.Samples) != 1 {
			t.Fatalf("%+v (%v)", r, err)
		}
		if s := r.Samples[0]; s.Rules != 50 || s.Lag.Count != 50 || s.JournalBytes == 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("rebuild", func(t *testing.T) {
		r, err := rebuild(o)
		if err != nil || len(r.Samples) != 1 {
			t.Fatalf("%+v (%v)", r, err)
		}
		s := r.Samples[0]
		if s.IndexBytes < 20_000*10 || s.Rebuild.Peak == 0 || s.Start.Seconds > s.Rebuild.Seconds {
			t.Errorf("%+v", s)
		}
	})
}
