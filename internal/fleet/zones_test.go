package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// in places the pods in zones. The string zones has one character for each pod: a letter is the name of the zone. A
// dash stands for a node without a zone, and a dot for a pod without a node.
func in(zones string, pods []Pod) []Pod {
	for i := range pods {
		if zone := zones[i : i+1]; zone != "." {
			pods[i].Placed = true
			if zone != "-" {
				pods[i].Zone = zone
			}
		}
	}
	return pods
}

// TestDecideInZones checks that each zone has its own owners, and that a change in one zone moves no keys in another
// zone.
func TestDecideInZones(t *testing.T) {
	const handover = 10 * time.Minute
	zoned := func(zones map[string]Zone) State { return State{Fleet: Fleet{Zones: zones, Serial: 7}} }
	two := func() map[string]Zone {
		return map[string]Zone{"a": {Owners: owners(0, 2)}, "b": {Owners: owners(1, 3)}}
	}
	after := func(s State, until time.Time, change func(map[string]Zone)) State {
		s.Serial++
		s.Until = until
		change(s.Zones)
		return s
	}
	announcedAfter := func(s State, until time.Time, change func(map[string]Zone)) State {
		s.Serial++
		return after(s, until, change)
	}
	tests := map[string]struct {
		in   Input
		want Decision
	}{
		"the first pods": {
			Input{Pods: in("abab", ready(0, 1, 2, 3)), Replicas: 4},
			Decision{State: State{Fleet: Fleet{Zones: two(), Serial: 1}}},
		},
		"nodes without a zone": {
			Input{Pods: in("-b-b", ready(0, 1, 2, 3)), Replicas: 4},
			Decision{State: State{Fleet: Fleet{
				Zones: map[string]Zone{"": {Owners: owners(0, 2)}, "b": {Owners: owners(1, 3)}}, Serial: 1,
			}}},
		},
		"nothing changes": {
			Input{State: zoned(two()), Pods: in("abab", ready(0, 1, 2, 3)), Replicas: 4},
			Decision{State: zoned(two())},
		},
		"a member restarts and has no node yet": {
			Input{
				State: zoned(two()), Replicas: 4,
				Pods: in("aba.", with(ready(0, 1, 2, 3), 3, func(p *Pod) { p.ReadySince = time.Time{} })),
			},
			Decision{State: zoned(two())},
		},
		"one joins a zone": {
			Input{State: zoned(two()), Pods: in("ababb", ready(0, 1, 2, 3, 4)), Replicas: 5},
			Decision{State: announcedAfter(zoned(two()), now.Add(handover), func(z map[string]Zone) {
				z["b"] = Zone{Owners: owners(1, 3, 4), Previous: owners(1, 3)}
			}), After: handover},
		},
		"one comes back in another zone": {
			Input{State: zoned(two()), Pods: in("abaa", ready(0, 1, 2, 3)), Replicas: 4},
			Decision{State: announcedAfter(zoned(two()), now.Add(handover), func(z map[string]Zone) {
				z["a"] = Zone{Owners: owners(0, 2, 3), Previous: owners(0, 2)}
				z["b"] = Zone{Owners: owners(1), Previous: owners(1, 3)}
			}), After: handover},
		},
		"scaled down": {
			Input{State: zoned(two()), Pods: in("abab", ready(0, 1, 2, 3)), Replicas: 3},
			Decision{State: announcedAfter(zoned(two()), now.Add(handover), func(z map[string]Zone) {
				z["b"] = Zone{Owners: owners(1), Previous: owners(1, 3)}
			}), Keep: 4, After: handover},
		},
		"the scope was Cluster": {
			Input{State: owned(0, 1, 2, 3), Pods: in("abab", ready(0, 1, 2, 3)), Replicas: 4},
			Decision{State: after(zoned(two()), now.Add(handover), func(z map[string]Zone) {
				z["a"] = Zone{Owners: owners(0, 2), Previous: owners(0, 1, 2, 3)}
				z["b"] = Zone{Owners: owners(1, 3), Previous: owners(0, 1, 2, 3)}
			}), After: handover},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.in.Now, tt.in.Handover, tt.in.Zoned = now, handover, true
			got := announced(t, tt.in)
			if diff := cmp.Diff(tt.want, got, unguarded); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := tt.in
			again.State = got.State
			if diff := cmp.Diff(got.State, Decide(again).State); diff != "" {
				t.Errorf("decided once more (-first +second):\n%s", diff)
			}
			read, err := Read(got.State.String())
			if diff := cmp.Diff(got.State.Fleet, read); err != nil || diff != "" {
				t.Errorf("read again: %v\n%s", err, diff)
			}
		})
	}
}

// TestFor checks that a pod is in the fleet of its own zone.
func TestFor(t *testing.T) {
	f := Fleet{Zones: map[string]Zone{
		"a": {Owners: owners(0, 2), Previous: owners(0, 1, 2)}, "b": {Owners: owners(1)},
	}, Serial: 7}
	for pod, want := range map[int]Fleet{
		2: {Owners: owners(0, 2), Previous: owners(0, 1, 2), Serial: 7}, 1: {Owners: owners(1), Serial: 7}, 5: {Serial: 7},
	} {
		if diff := cmp.Diff(want, f.For(pod)); diff != "" {
			t.Errorf("pod %d (-want +got):\n%s", pod, diff)
		}
	}
	if n := f.Owning(); n != 3 {
		t.Errorf("%d pods own keys, want 3", n)
	}
	if diff := cmp.Diff(Of(3), Of(3).For(1)); diff != "" {
		t.Errorf("without zones (-want +got):\n%s", diff)
	}
}
