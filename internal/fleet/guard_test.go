package fleet

import (
	"testing"
	"time"
)

func TestGuard(t *testing.T) {
	in := func(state State, pods []Pod) Input { return Input{State: state, Pods: pods, Replicas: len(pods)} }
	leaving := func(p *Pod) { p.Leaves = true }
	dead := func(p *Pod) { p.Leaves, p.ReadySince = true, time.Time{} }
	away := func(members ...int) Owners { return Owners{Members: members, Away: []int{1}} }
	after := func(o Owners) State { return State{Fleet: Fleet{Owners: o, Serial: 7}} }
	for name, tt := range map[string]struct {
		in   Input
		want Guard
	}{
		"no pod owns keys":  {in(State{}, []Pod{{Ordinal: 0}, {Ordinal: 1}}), Unguarded},
		"one pod":           {in(owned(0), ready(0)), Unguarded},
		"one pod, cordoned": {in(owned(0), with(ready(0), 0, leaving)), HandedOver},
		"several pods":      {in(owned(0, 1), ready(0, 1)), NeedsCordon},
		"a cordon":          {in(owned(0, 1), with(ready(0, 1), 1, leaving)), HandingOver},
		"a cordon, not announced to all yet": {
			in(handing(owners(0, 1), owners(0, 1)), with(ready(0, 1), 1, leaving)), HandingOver,
		},
		"a cordon, handed over":            {in(after(away(0, 1)), with(ready(0, 1), 1, leaving)), HandedOver},
		"a cordon, two remain":             {in(after(away(0, 1, 2)), with(ready(0, 1, 2), 1, leaving)), HandedOver},
		"a cordoned pod that is not ready": {in(after(away(0, 1, 2)), with(ready(0, 1, 2), 1, dead)), NeedsCordon},
		"all are cordoned": {
			in(owned(0, 1), with(with(ready(0, 1), 1, leaving), 0, leaving)), HandedOver,
		},
		"a second cordon": {
			in(after(away(0, 1, 2)), with(with(ready(0, 1, 2), 1, leaving), 2, leaving)), HandingOver,
		},
		"a cordoned pod is scaled away": {
			Input{
				State: handing(owners(0, 1), owners(0, 1, 2)), Pods: with(ready(0, 1, 2), 2, leaving), Replicas: 2,
			}, HandingOver,
		},
		"two cordons in a row": {
			in(handing(away(0, 1, 2), owners(0, 1, 2)), with(with(ready(0, 1, 2), 1, leaving), 2, leaving)), HandingOver,
		},
		"a pod joins": {
			in(handing(owners(0, 1, 2), owners(0, 1)), ready(0, 1, 2)), NeedsCordon,
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
