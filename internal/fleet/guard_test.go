package fleet

import (
	"testing"
	"time"
)

func TestGuard(t *testing.T) {
	leaving := func(p *Pod) { p.Leaves = true }
	dead := func(p *Pod) { p.Leaves, p.ReadySince = true, time.Time{} }
	away := func(members ...int) Owners { return Owners{Members: members, Away: []int{1}} }
	after := func(o Owners) State { return State{Fleet: Fleet{Owners: o, Serial: 7}} }
	for name, tt := range map[string]struct {
		in   Input
		want Guard
	}{
		"no pod owns keys":                 {Input{Pods: []Pod{{Ordinal: 0}, {Ordinal: 1}}, Replicas: 2}, Unguarded},
		"one pod":                          {Input{State: owned(0), Pods: ready(0), Replicas: 1}, Unguarded},
		"one pod, cordoned":                {Input{State: owned(0), Pods: with(ready(0), 0, leaving), Replicas: 1}, HandedOver},
		"several pods":                     {Input{State: owned(0, 1), Pods: ready(0, 1), Replicas: 2}, NeedsCordon},
		"a cordon":                         {Input{State: owned(0, 1), Pods: with(ready(0, 1), 1, leaving), Replicas: 2}, HandingOver},
		"a cordon, handed over":            {Input{State: after(away(0, 1)), Pods: with(ready(0, 1), 1, leaving), Replicas: 2}, HandedOver},
		"a cordon, two remain":             {Input{State: after(away(0, 1, 2)), Pods: with(ready(0, 1, 2), 1, leaving), Replicas: 3}, HandedOver},
		"a cordoned pod that is not ready": {Input{State: after(away(0, 1, 2)), Pods: with(ready(0, 1, 2), 1, dead), Replicas: 3}, NeedsCordon},
		"all are cordoned": {
			Input{State: owned(0, 1), Pods: with(with(ready(0, 1), 1, leaving), 0, leaving), Replicas: 2}, HandedOver,
		},
		"a second cordon": {
			Input{State: after(away(0, 1, 2)), Pods: with(with(ready(0, 1, 2), 1, leaving), 2, leaving), Replicas: 3}, HandingOver,
		},
		"a pod joins": {
			Input{State: handing(owners(0, 1, 2), owners(0, 1)), Pods: ready(0, 1, 2), Replicas: 3}, NeedsCordon,
		},
		"two zones, a single pod in one": {
			Input{
				Pods: []Pod{
					{Ordinal: 0, Able: true, ReadySince: now.Add(-time.Hour), Zone: "a", Placed: true},
					{Ordinal: 1, Able: true, ReadySince: now.Add(-time.Hour), Zone: "a", Placed: true},
					{Ordinal: 2, Able: true, ReadySince: now.Add(-time.Hour), Zone: "b", Placed: true},
				}, Replicas: 3, Zoned: true,
			}, NeedsCordon,
		},
		"its node is cordoned": {
			Input{
				Pods: []Pod{
					{Ordinal: 0, Able: true, ReadySince: now.Add(-time.Hour), Zone: "a", Placed: true},
					{Ordinal: 1, Able: true, ReadySince: now.Add(-time.Hour), Zone: "a", Placed: true},
					{Ordinal: 2, Able: true, ReadySince: now.Add(-time.Hour), Zone: "b", Placed: true, Leaves: true},
				}, Replicas: 3, Zoned: true,
			}, HandedOver,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.in.Now, tt.in.Handover = now, time.Minute
			if got := Decide(tt.in).Guard; got != tt.want {
				t.Errorf("got guard %d, want %d", got, tt.want)
			}
			tt.in.Handover = 0
			if got := Decide(tt.in).Guard; tt.in.State.Previous.IsZero() && got.Closed() {
				t.Errorf("without a hand-over: guard %d", got)
			}
		})
	}
}
