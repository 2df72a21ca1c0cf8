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
	soon := now.Add(time.Minute)
	open := filling(time.Time{}) // until all pods have taken the change
	openBoth := filling(time.Time{})
	openBoth.Disks.Members = disksOf(two)
	heavier := []shard.Member{{Name: "disk1", Weight: 20}}
	young, old := []time.Time{now.Add(-time.Second)}, []time.Time{now.Add(-handover)}
	later := func(s State) State {
		s.Serial++
		return s
	}
	for name, tt := range map[string]struct {
		state       State
		had, wanted []shard.Member
		created     []time.Time
		handover    time.Duration
		want        State
		after       time.Duration
	}{
		"nothing changes":           {owned(0, 1), two, []shard.Member{two[1], two[0]}, young, handover, owned(0, 1), 0},
		"a new CacheNode":           {State{}, nil, two, young, handover, State{}, 0},
		"a disk is added":           {owned(0, 1), one, two, nil, handover, later(open), 0},
		"no hand-over":              {owned(0, 1), one, two, nil, 0, owned(0, 1), 0},
		"it is being rolled out":    {open, one, two, nil, handover, open, 0},
		"so it was before":          {filling(soon), one, two, nil, handover, later(open), 0},
		"the last pod starts":       {open, two, two, young, handover, open, handover},
		"it does not start":         {open, two, two, old, handover, later(filling(now.Add(handover))), handover},
		"all have it":               {open, two, two, nil, handover, later(filling(now.Add(handover))), handover},
		"they fill":                 {filling(soon), two, two, young, handover, filling(soon), time.Minute},
		"the time is over":          {filling(now), two, two, nil, handover, later(owned(0, 1)), 0},
		"another change meanwhile":  {filling(soon), two, one, nil, handover, later(openBoth), 0},
		"a disk gets more weight":   {owned(0, 1), one, heavier, nil, handover, later(open), 0},
		"switched off in between":   {filling(soon), two, two, nil, 0, filling(soon), time.Minute},
		"switched off before":       {open, two, two, young, 0, later(owned(0, 1)), 0},
		"over, with no more change": {filling(now.Add(-time.Hour)), two, two, nil, 0, later(owned(0, 1)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, after := DecideDisks(DisksInput{tt.state, tt.had, tt.wanted, tt.created, tt.handover, now})
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
