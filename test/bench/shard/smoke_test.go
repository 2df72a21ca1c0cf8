package main

import (
	"strings"
	"testing"
	"time"
)

// TestFewKeysMove is a short form of make bench-shard. It checks only how many keys move, because this number does not
// depend on the machine.
func TestFewKeysMove(t *testing.T) {
	t.Chdir("../../..")
	var out strings.Builder
	if err := run(&out, options{sets: 40, keys: 5000, rounds: 1, duration: time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	for _, way := range ways {
		if !strings.Contains(out.String(), way) {
			t.Errorf("%q is not in the report", way)
		}
	}
	for _, m := range move(40, 5000) {
		if m.Times["plan"] < 0.9 || m.Times["plan"] > 1.15 {
			t.Errorf("%s: a plan moves %.2f times what it must", m.Change, m.Times["plan"])
		}
		if m.Times["percentages"] < m.Times["plan"] || m.Times["modulo"] < m.Times["plan"] {
			t.Errorf("%s: a plan moves more than the others: %v", m.Change, m.Times)
		}
	}
	for _, b := range spread(40) {
		if b.Way == "plan" && b.Worst > 5 {
			t.Errorf("a disk has %.2f%% more or fewer keys than by its weight", b.Worst)
		}
	}
}
