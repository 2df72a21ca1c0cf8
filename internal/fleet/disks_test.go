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
	fillingBoth := filling(now.Add(handover))
	fillingBoth.Disks.Members = disksOf(two)
	heavier := []shard.Member{{Name: "disk1", Weight: 20}}
	later := func(s State) State {
		s.Serial++
		return s
	}
	for name, tt := range map[string]struct {
		state       State
		had, wanted []shard.Member
		handover    time.Duration
		want        State
		after       time.Duration
	}{
		"nothing changes":           {owned(0, 1), two, []shard.Member{two[1], two[0]}, handover, owned(0, 1), 0},
		"a new CacheNode":           {State{}, nil, two, handover, State{}, 0},
		"a disk is added":           {owned(0, 1), one, two, handover, later(filling(now.Add(handover))), handover},
		"no hand-over":              {owned(0, 1), one, two, 0, owned(0, 1), 0},
		"it is being rolled out":    {filling(soon), one, two, handover, filling(soon), time.Minute},
		"it is rolled out":          {filling(soon), two, two, handover, filling(soon), time.Minute},
		"the time is over":          {filling(now), two, two, handover, later(owned(0, 1)), 0},
		"over, and not rolled out":  {filling(now), one, two, handover, later(filling(now.Add(handover))), handover},
		"another change meanwhile":  {filling(soon), two, one, handover, later(fillingBoth), handover},
		"a disk gets more weight":   {owned(0, 1), one, heavier, handover, later(filling(now.Add(handover))), handover},
		"switched off in between":   {filling(soon), two, two, 0, filling(soon), time.Minute},
		"over, with no more change": {filling(now.Add(-time.Hour)), two, two, 0, later(owned(0, 1)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, after := DecideDisks(tt.state, tt.had, tt.wanted, tt.handover, now)
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
