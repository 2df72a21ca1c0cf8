package controllers

import (
	"testing"
	"time"
)

// TestTrial checks how long edits of routes wait for a candidate.
func TestTrial(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	const canary = 5 * time.Second
	var seen trial
	if got := seen.waits("a", canary, begin); got != 50*time.Second {
		t.Errorf("a new candidate: %s", got)
	}
	for after, want := range map[time.Duration]time.Duration{
		0: 50 * time.Second, 20 * time.Second: 30 * time.Second, time.Minute: 0,
	} {
		now := begin.Add(after)
		if got := seen.next("a", begin).next("a", now).waits("a", canary, now); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
	later := begin.Add(time.Minute)
	if got := seen.next("a", begin).next("", later).next("b", later).waits("b", canary, later); got != 50*time.Second {
		t.Errorf("the next candidate: %s", got)
	}
}
