package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/shard"
)

func TestDecideDisks(t *testing.T) {
	const handover = 10 * time.Minute
	one := []shard.Member{{Name: "disk1", Weight: 10}}
	two := []shard.Member{{Name: "disk2", Weight: 10}, {Name: "disk1", Weight: 10}}
	filling := func(until time.Time) State {
		s := owned(0, 1)
		s.Disks = Disks{Members: []Disk{{"disk1", 10}}, Until: until}
		return s
	}
	// underWay returns a state in which some pods have not applied the change yet.
	underWay := func(until time.Time) State {
		s := filling(until)
		s.Disks.UnderWay = true
		return s
	}
	soon, full := now.Add(time.Minute), now.Add(handover)
	both := underWay(full)
	both.Disks.Members = disksOf(two)
	heavier := []shard.Member{{Name: "disk1", Weight: 20}}
	later := func(s State) State {
		s.Serial++
		return s
	}
	for name, tt := range map[string]struct {
		state       State
		had, wanted []shard.Member
		starts      bool
		handover    time.Duration
		want        State
		after       time.Duration
	}{
		"nothing changes":         {owned(0, 1), two, []shard.Member{two[1], two[0]}, true, handover, owned(0, 1), 0},
		"a new CacheNode":         {State{}, nil, two, true, handover, State{}, 0},
		"a disk is added":         {owned(0, 1), one, two, false, handover, later(underWay(full)), handover},
		"no hand-over":            {owned(0, 1), one, two, false, 0, owned(0, 1), 0},
		"it is being rolled out":  {underWay(soon), one, two, false, handover, underWay(soon), time.Minute},
		"for a long time":         {underWay(now), one, two, false, handover, later(underWay(full)), handover},
		"by an earlier operator":  {filling(soon), one, two, false, handover, later(underWay(full)), handover},
		"the last pod starts":     {underWay(soon), two, two, true, handover, underWay(soon), time.Minute},
		"for a long time too":     {underWay(now), two, two, true, handover, later(underWay(full)), handover},
		"all have it":             {underWay(soon), two, two, false, handover, later(filling(full)), handover},
		"they fill":               {filling(soon), two, two, true, handover, filling(soon), time.Minute},
		"the time is over":        {filling(now), two, two, false, handover, later(owned(0, 1)), 0},
		"another change":          {filling(soon), two, one, false, handover, later(both), handover},
		"a disk gets more weight": {owned(0, 1), one, heavier, false, handover, later(underWay(full)), handover},
		"switched off":            {underWay(soon), two, two, false, 0, later(owned(0, 1)), 0},
		"a shorter time":          {filling(full), two, two, false, time.Minute, later(filling(soon)), time.Minute},
		"over, with no change":    {underWay(now.Add(-time.Hour)), two, two, false, 0, later(owned(0, 1)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, after := DecideDisks(DisksInput{tt.state, tt.had, tt.wanted, tt.starts, tt.handover, now})
			if diff := cmp.Diff(tt.want, got); diff != "" || after != tt.after {
				t.Errorf("again after %s, want %s (-want +got):\n%s", after, tt.after, diff)
			}
			read, err := Read(got.String())
			if diff := cmp.Diff(got.Fleet, read); err != nil || diff != "" {
				t.Errorf("read again: %v\n%s", err, diff)
			}
		})
	}
}
