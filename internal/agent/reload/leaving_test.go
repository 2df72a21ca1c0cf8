package reload

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPause checks how long a reload waits, by the memory of old workers.
func TestPause(t *testing.T) {
	t.Parallel()
	const gib = int64(1) << 30
	for name, tt := range map[string]struct {
		since        time.Duration
		leaving, all int64
		want         time.Duration
	}{
		"no old worker":           {0, 0, gib, 0},
		"an eighth of the memory": {0, gib / 8, gib, 5 * time.Second},
		"the same, after a while": {2 * time.Second, gib / 8, gib, 3 * time.Second},
		"a quarter of the memory": {0, gib / 4, gib, 10 * time.Second},
		"more than all":           {0, 2 * gib, gib, 10 * time.Second},
		"after a long time":       {time.Hour, 2 * gib, gib, 0},
		"nothing is known":        {0, gib, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Pause(tt.since, tt.leaving, tt.all); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestExcess checks which old workers are ended.
func TestExcess(t *testing.T) {
	t.Parallel()
	at := func(second int64) oldWorker { return oldWorker{since: time.Unix(second, 0)} }
	leaving := map[int]oldWorker{1: at(30), 2: at(10), 3: at(20), 4: at(10)}
	sizes := map[int]int64{1: 10, 2: 10, 3: 10, 4: 10}
	for name, tt := range map[string]struct {
		limit int64
		want  []int
	}{
		"all fit": {40, nil}, "one too many": {39, []int{2}}, "the oldest first": {15, []int{2, 4, 3}},
		"none fits": {0, []int{2, 4, 3, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, excess(leaving, sizes, tt.limit)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestAnonymous checks that the memory of a process can be read.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	if got := anonymous(os.Getpid()); got < 1<<20 {
		t.Errorf("this process has %d bytes", got)
	}
	if got := anonymous(-1); got != 0 {
		t.Errorf("a process that does not exist has %d bytes", got)
	}
}
