package lab

import (
	"slices"
	"strings"
	"testing"
)

func TestProcessors(t *testing.T) {
	for count, want := range map[int][2]string{
		1: {"", ""}, 2: {"", ""}, 3: {"", ""}, 4: {"0-1", "2-3"}, 16: {"0-1", "2-15"},
	} {
		servers, others := processors(count)
		if got := [2]string{servers, others}; got != want {
			t.Errorf("%d processors: %q, want %q", count, got, want)
		}
	}
	for processors, want := range map[string]string{"": "wrk -t1", "2-3": "taskset --cpu-list 2-3 wrk -t1"} {
		if got := on(processors, "wrk", "-t1"); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("on %q: %q, want %q", processors, got, want)
		}
	}
}
