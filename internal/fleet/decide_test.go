package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// ready returns pods that have been ready for a minute.
func ready(ordinals ...int) []Pod {
	var pods []Pod
	for _, o := range ordinals {
		pods = append(pods, Pod{Ordinal: o, Able: true, ReadySince: now.Add(-time.Minute)})
	}
	return pods
}

// with applies change to pods[i], and returns pods.
func with(pods []Pod, i int, change func(*Pod)) []Pod {
	change(&pods[i])
	return pods
}

// unguarded makes comparisons ignore the field Guard, which TestGuard checks.
var unguarded = cmpopts.IgnoreFields(Decision{}, "Guard")

func owners(ordinals ...int) Owners { return Owners{Members: ordinals} }

// owned returns a state without a hand-over.
func owned(ordinals ...int) State { return State{Fleet: Fleet{Owners: owners(ordinals...), Serial: 7}} }

// handing returns a state in which keys are handed over for another five minutes.
func handing(to, from Owners) State {
	return State{Fleet: Fleet{Owners: to, Previous: from, Serial: 7}, Until: now.Add(5 * time.Minute)}
}

func TestDecide(t *testing.T) {
	const handover = 10 * time.Minute
	tests := map[string]struct {
		in   Input
		want Decision
	}{
		"the first pods": {
			Input{Pods: ready(0, 1, 2), Replicas: 3},
			Decision{State: State{Fleet: Fleet{Owners: owners(0, 1, 2), Serial: 1}}},
		},
		"some of the first pods": {
			Input{Pods: append(with(ready(0, 1), 0, func(p *Pod) { p.ReadySince = now.Add(-10 * time.Second) })[:1],
				Pod{Ordinal: 1, Able: true}), Replicas: 3},
			Decision{After: 20 * time.Second},
		},
		"some of the first pods exist": {
			Input{Pods: with(ready(0), 0, func(p *Pod) { p.ReadySince = now.Add(-10 * time.Second) }), Replicas: 2},
			Decision{After: 20 * time.Second},
		},
		"an agent that was not asked yet": {
			Input{
				Pods: append(with(ready(0), 0, func(p *Pod) { p.ReadySince = now.Add(-10 * time.Second) }),
					Pod{Ordinal: 1, ReadySince: now, Unasked: true}), Replicas: 2,
			},
			Decision{After: 20 * time.Second},
		},
		"one of them takes long": {
			Input{Pods: append(ready(0, 1), Pod{Ordinal: 2, Able: true}), Replicas: 3},
			Decision{State: State{Fleet: Fleet{Owners: owners(0, 1), Serial: 1}}},
		},
		"a pod of an old template keeps the first ones waiting": {
			Input{Pods: with(ready(0, 1), 1, func(p *Pod) { p.Able = false }), Replicas: 2},
			Decision{},
		},
		"a pod of an old template does not join": {
			Input{State: owned(0), Pods: with(ready(0, 1), 1, func(p *Pod) { p.Able = false }), Replicas: 2},
			Decision{State: owned(0)},
		},
		"a pod in between takes long": {
			Input{Pods: with(ready(0, 1, 2), 1, func(p *Pod) { p.ReadySince = time.Time{} }), Replicas: 3},
			Decision{State: State{Fleet: Fleet{Owners: Owners{Members: []int{0, 1, 2}, Away: []int{1}}, Serial: 1}}},
		},
		"it is ready": {
			Input{
				State: State{Fleet: Fleet{Owners: Owners{Members: []int{0, 1, 2}, Away: []int{1}}, Serial: 1}},
				Pods:  ready(0, 1, 2), Replicas: 3,
			},
			Decision{
				State: State{Fleet: Fleet{
					Owners: owners(0, 1, 2), Previous: Owners{Members: []int{0, 1, 2}, Away: []int{1}}, Serial: 3,
				}, Until: now.Add(handover)}, After: handover,
			},
		},
		"the pod of a drained node waits for a node": {
			Input{
				State: State{Fleet: Fleet{Owners: Owners{Members: []int{0, 1, 2}, Away: []int{1}}, Serial: 7}},
				Pods:  with(ready(0, 1, 2), 1, func(p *Pod) { p.ReadySince = time.Time{} }), Replicas: 3,
			},
			Decision{State: State{Fleet: Fleet{Owners: Owners{Members: []int{0, 1, 2}, Away: []int{1}}, Serial: 7}}},
		},
		"it is gone": {
			Input{
				State: State{Fleet: Fleet{Owners: Owners{Members: []int{0, 1, 2}, Away: []int{1}}, Serial: 7}},
				Pods:  ready(0, 2), Replicas: 3,
			},
			Decision{State: State{Fleet: Fleet{Owners: Owners{Members: []int{0, 1, 2}, Away: []int{1}}, Serial: 7}}},
		},
		"nothing changes": {
			Input{State: owned(0, 1, 2), Pods: ready(0, 1, 2), Replicas: 3},
			Decision{State: owned(0, 1, 2)},
		},
		"a pod joins": {
			Input{State: owned(0, 1), Pods: ready(0, 1, 2), Replicas: 3},
			Decision{
				State: State{
					Fleet: Fleet{Owners: owners(0, 1, 2), Previous: owners(0, 1), Serial: 9}, Until: now.Add(handover),
				}, After: handover,
			},
		},
		"a member restarts": {
			Input{
				State: owned(0, 1, 2), Replicas: 3,
				Pods: with(ready(0, 1, 2), 1, func(p *Pod) { p.ReadySince = time.Time{} }),
			},
			Decision{State: owned(0, 1, 2)},
		},
		"a member is gone for now": {
			Input{State: owned(0, 1, 2), Pods: ready(0, 2), Replicas: 3},
			Decision{State: owned(0, 1, 2)},
		},
		"scaled down": {
			Input{State: owned(0, 1, 2, 3), Pods: ready(0, 1, 2, 3), Replicas: 2},
			Decision{
				State: State{
					Fleet: Fleet{Owners: owners(0, 1), Previous: owners(0, 1, 2, 3), Serial: 9}, Until: now.Add(handover),
				}, Keep: 4, After: handover,
			},
		},
		"while it is scaled down": {
			Input{State: handing(owners(0, 1), owners(0, 1, 2)), Pods: ready(0, 1, 2), Replicas: 2},
			Decision{State: handing(owners(0, 1), owners(0, 1, 2)), Keep: 3, After: 5 * time.Minute},
		},
		"what is scaled away has died": {
			Input{State: handing(owners(0, 1), owners(0, 1, 2)), Pods: ready(0, 1), Replicas: 2},
			Decision{State: handing(owners(0, 1), owners(0, 1, 2)), After: 5 * time.Minute},
		},
		"scaled to nothing": {
			Input{State: owned(0, 1), Pods: ready(0, 1), Replicas: 0},
			Decision{
				State: State{Fleet: Fleet{Previous: owners(0, 1), Serial: 9}, Until: now.Add(handover)}, After: handover,
			},
		},
		"a cordoned node": {
			Input{State: owned(0, 1, 2), Pods: with(ready(0, 1, 2), 1, func(p *Pod) { p.Leaves = true }), Replicas: 3},
			Decision{
				State: State{
					Fleet: Fleet{
						Owners: Owners{Members: []int{0, 1, 2}, Away: []int{1}}, Previous: owners(0, 1, 2), Serial: 9,
					}, Until: now.Add(handover),
				}, After: handover,
			},
		},
		"a second node, while the first hands over": {
			Input{
				State: handing(Owners{Members: []int{0, 1, 2}, Away: []int{1}}, owners(0, 1, 2)), Replicas: 3,
				Pods: with(with(ready(0, 1, 2), 1, func(p *Pod) { p.Leaves = true }), 2, func(p *Pod) { p.Leaves = true }),
			},
			Decision{
				State: State{
					Fleet: Fleet{
						Owners: Owners{Members: []int{0, 1, 2}, Away: []int{1, 2}}, Previous: owners(0, 1, 2), Serial: 8,
					}, Until: now.Add(handover),
				}, After: handover,
			},
		},
		"the first is back while a second hands over": {
			Input{
				State: handing(Owners{Members: []int{0, 1, 2}, Away: []int{1}}, owners(0, 1, 2)), Replicas: 3,
				Pods: with(ready(0, 1, 2), 2, func(p *Pod) { p.Leaves = true }),
			},
			Decision{
				State: State{
					Fleet: Fleet{
						Owners:   Owners{Members: []int{0, 1, 2}, Away: []int{2}},
						Previous: Owners{Members: []int{0, 1, 2}, Away: []int{1}}, Serial: 9,
					}, Until: now.Add(handover),
				}, After: handover,
			},
		},
		"a pod would join while another leaves": {
			Input{
				State: handing(Owners{Members: []int{0, 1, 2}, Away: []int{1}}, owners(0, 1, 2)), Replicas: 4,
				Pods: with(ready(0, 1, 2, 3), 1, func(p *Pod) { p.Leaves = true }),
			},
			Decision{
				State: handing(Owners{Members: []int{0, 1, 2}, Away: []int{1}}, owners(0, 1, 2)), After: 5 * time.Minute,
			},
		},
		"a pod joins after the one that left has died": {
			Input{
				State: handing(owners(0, 1), owners(0, 1, 2)), Replicas: 2 + 2,
				Pods: with(ready(0, 1, 2, 3), 2, func(p *Pod) { p.ReadySince = time.Time{} }),
			},
			Decision{
				State: State{
					Fleet: Fleet{
						Owners: Owners{Members: []int{0, 1, 2, 3}, Away: []int{2}}, Previous: owners(0, 1), Serial: 9,
					}, Until: now.Add(handover),
				}, After: handover,
			},
		},
		"what was scaled away is back": {
			Input{State: handing(owners(0, 1), owners(0, 1, 2)), Pods: ready(0, 1, 2), Replicas: 3},
			Decision{
				State: State{
					Fleet: Fleet{Owners: owners(0, 1, 2), Previous: owners(0, 1), Serial: 9}, Until: now.Add(handover),
				}, After: handover,
			},
		},
		"scaled down once more": {
			Input{State: handing(owners(0, 1, 2), owners(0, 1, 2, 3)), Pods: ready(0, 1, 2, 3), Replicas: 2},
			Decision{
				State: State{
					Fleet: Fleet{Owners: owners(0, 1), Previous: owners(0, 1, 2, 3), Serial: 8}, Until: now.Add(handover),
				}, Keep: 4, After: handover,
			},
		},
		"a cordoned node while it is scaled down": {
			Input{
				State: handing(owners(0, 1, 2), owners(0, 1, 2, 3)), Replicas: 3,
				Pods: with(ready(0, 1, 2, 3), 1, func(p *Pod) { p.Leaves = true }),
			},
			Decision{
				State: State{
					Fleet: Fleet{
						Owners: Owners{Members: []int{0, 1, 2}, Away: []int{1}}, Previous: owners(0, 1, 2, 3), Serial: 8,
					}, Until: now.Add(handover),
				}, Keep: 4, After: handover,
			},
		},
		"all nodes are cordoned": {
			Input{State: owned(0), Pods: with(ready(0), 0, func(p *Pod) { p.Leaves = true }), Replicas: 1},
			Decision{State: owned(0)},
		},
		"no disk can be used": {
			Input{State: owned(0, 1), Pods: with(ready(0, 1), 1, func(p *Pod) { p.Spent = true }), Replicas: 2},
			Decision{
				State: State{
					Fleet: Fleet{Owners: Owners{Members: []int{0, 1}, Away: []int{1}}, Previous: owners(0, 1), Serial: 9},
					Until: now.Add(handover),
				}, After: handover,
			},
		},
		"a pod without disks does not join": {
			Input{State: owned(0), Pods: with(ready(0, 1), 1, func(p *Pod) { p.Spent = true }), Replicas: 2},
			Decision{State: owned(0)},
		},
		"the hand-over ends": {
			Input{
				State: State{Fleet: Fleet{Owners: owners(0, 1), Previous: owners(0, 1, 2), Serial: 7}, Until: now},
				Pods:  ready(0, 1, 2), Replicas: 2,
			},
			Decision{State: State{Fleet: Fleet{Owners: owners(0, 1), Serial: 8}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.in.Now, tt.in.Handover = now, handover
			if diff := cmp.Diff(tt.want, announced(t, tt.in), unguarded); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			tt.in.Handover = 0
			got := Decide(tt.in)
			if tt.in.State.Previous.IsZero() && (!got.State.Previous.IsZero() || got.Keep > 0 || got.Guard.Closed()) {
				t.Errorf("without a hand-over: %+v", got)
			}
		})
	}
}

// announced calls Decide, and calls it again if the first decision announces a change. It checks that the announcement
// changes no owners. It also checks that Decide waits for pods that do not know the announcement, but not longer than
// announceWait.
func announced(t *testing.T, in Input) Decision {
	t.Helper()
	first := Decide(in)
	if !first.Announced {
		return first
	}
	again := in
	again.State = first.State
	waits := Decide(again)
	if diff := cmp.Diff(first, waits); diff != "" {
		t.Errorf("while not all pods know of the announcement (-before +after):\n%s", diff)
	}
	again.Known = true
	got := Decide(again)
	owners := func(s State) any { return []any{s.Owners, s.Zones["a"].Owners, s.Zones["b"].Owners} }
	diff := cmp.Diff(owners(in.State), owners(first.State))
	if diff != "" || first.After != announceWait || got.Announced {
		t.Errorf("the announcement waits for %s, and there is another one: %t (owners -before +after)\n%s",
			first.After, got.Announced, diff)
	}
	again.Known, again.Now = false, again.Now.Add(announceWait)
	if late := Decide(again); !cmp.Equal(owners(got.State), owners(late.State)) {
		t.Errorf("after %s, the pods that own keys are %v", announceWait, owners(late.State))
	}
	return got
}

func TestRead(t *testing.T) {
	f := Fleet{Owners: Owners{Members: []int{0, 1, 2}, Away: []int{2}}, Previous: owners(0), Serial: 3}
	got, err := Read(f.String())
	if err != nil || cmp.Diff(f, got) != "" {
		t.Errorf("%s becomes %+v (%v)", f, got, err)
	}
	for name, text := range map[string]string{
		"no JSON": "x", "not sorted": `{"members":[1,0]}`, "twice": `{"members":[1,1]}`, "negative": `{"members":[-1]}`,
		"away and no member": `{"members":[1],"away":[2]}`, "previous not sorted": `{"previous":{"members":[2,1]}}`,
	} {
		if f, err := Read(text); err == nil {
			t.Errorf("%s: %s is read as %v", name, text, f)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"members":[0,1,2],"away":[1],"previous":{"members":[0]},"serial":9}`)
	f.Fuzz(func(t *testing.T, text string) {
		fleet, err := Read(text)
		if err != nil {
			return
		}
		again, err := Read(fleet.String())
		if diff := cmp.Diff(fleet.String(), again.String()); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
		for _, o := range []Owners{fleet.Owners, fleet.Previous} {
			if plan, ok := o.Plan(); ok && len(o.Present()) > 0 && plan.Share(Name(o.Present()[0])) == 0 {
				t.Errorf("%q: a present member has no slots", text)
			}
		}
	})
}

// TestShorterHandover checks an edit that makes the hand-over shorter. The edit applies to a hand-over that has begun,
// but not to the announcement of a hand-over.
func TestShorterHandover(t *testing.T) {
	until := func(s State, at time.Time) State { s.Until = at; return s }
	begun, announced := handing(owners(0, 1), owners(0)), handing(owners(0), owners(0))
	ended := owned(0, 1)
	ended.Serial++
	for name, tt := range map[string]struct {
		state    State
		handover time.Duration
		want     State
	}{
		"shorter":      {begun, time.Minute, until(begun, now.Add(time.Minute))},
		"longer":       {begun, time.Hour, begun},
		"switched off": {begun, 0, ended},
		"announced":    {announced, time.Minute, announced},
	} {
		t.Run(name, func(t *testing.T) {
			pods := ready(tt.state.Members...)
			got := Decide(Input{State: tt.state, Pods: pods, Replicas: len(pods), Handover: tt.handover, Now: now})
			if diff := cmp.Diff(tt.want, got.State); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
