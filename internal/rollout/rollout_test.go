package rollout

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// pod returns a ready pod. For a minute, it has run the revision runs and has had the revision assigned in its
// annotation.
func pod(i int, assigned, runs string) Pod {
	return Pod{
		Name: fmt.Sprintf("edge-%d", i), Ready: true, Assigned: assigned, Revision: runs, Current: true,
		AssignedAt: now.Add(-time.Minute), Since: now.Add(-time.Minute),
	}
}

func with(p Pod, change func(*Pod)) Pod { change(&p); return p }

func TestDecide(t *testing.T) {
	old := func(p *Pod) { p.Current = false }
	down := func(p *Pod) { p.Ready, p.Silent, p.Revision = false, true, "" }
	hurt := func(p *Pod) { p.Ready = false }
	silent := func(p *Pod) { p.Silent = true }
	fresh := func(p *Pod) { p.ReadySince = now.Add(-10 * time.Second) }
	just := func(p *Pod) { p.AssignedAt, p.Since = now.Add(-500*time.Millisecond), now.Add(-500*time.Millisecond) }
	refuses := func(p *Pod) { p.Refused = &agentapi.Refusal{Revision: "b", Message: "no"} }
	refused := &agentapi.Refusal{Revision: "b", Pod: "edge-2", Message: "no"}
	type pods = []Pod
	tests := map[string]struct {
		in   Input
		want Decision
	}{
		"a new CacheNode": {
			Input{Wanted: "a"},
			Decision{State: State{Stable: "a"}, Done: true},
		},
		"nothing to do": {
			Input{State: State{Stable: "a"}, Wanted: "a", Pods: pods{pod(0, "a", "a"), pod(1, "a", "a")}},
			Decision{State: State{Stable: "a"}, Done: true},
		},
		"a new pod starts on stable and is told so": {
			Input{State: State{Stable: "a"}, Wanted: "a", Pods: pods{pod(0, "a", "a"), with(pod(1, "x", ""), down)}},
			Decision{State: State{Stable: "a"}, Assign: map[string]string{"edge-1": "a"}, Done: true, After: NudgeAfter},
		},
		"an edit: the highest ordinal is the canary": {
			Input{
				State: State{Stable: "a"}, Wanted: "b", Width: 1,
				Pods: pods{pod(0, "a", "a"), pod(10, "a", "a"), pod(9, "a", "a")},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, Assign: map[string]string{"edge-10": "b"}, After: NudgeAfter},
		},
		"a pod that does not serve is no canary": {
			Input{State: State{Stable: "a"}, Wanted: "b", Width: 1, Pods: pods{pod(0, "a", "a"), with(pod(1, "a", "a"), down)}},
			Decision{State: State{Stable: "a", Candidate: "b"}, Assign: map[string]string{"edge-0": "b"}, After: NudgeAfter},
		},
		"the canary has not reported yet": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 1,
				Pods: pods{pod(0, "a", "a"), with(pod(1, "b", "a"), just)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, After: NudgeAfter / 2},
		},
		"the canary does not report: it is nudged": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 1,
				Pods: pods{pod(0, "a", "a"), pod(1, "b", "a")},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, Nudge: []string{"edge-1"}, After: NudgeAfter},
		},
		"the canary is watched": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 1, Canary: 10 * time.Second,
				Pods: pods{pod(0, "a", "a"), with(pod(1, "b", "b"), just)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, After: 9500 * time.Millisecond},
		},
		"the others follow, two at a time": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 2,
				Pods: pods{pod(0, "a", "a"), pod(1, "a", "a"), with(pod(2, "b", "a"), just), pod(3, "b", "b")},
			},
			Decision{
				State: State{Stable: "a", Candidate: "b"}, Assign: map[string]string{"edge-0": "b"},
				After: NudgeAfter / 2,
			},
		},
		"all have it": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 1,
				Pods: pods{pod(0, "b", "b"), pod(1, "b", "b")},
			},
			Decision{State: State{Stable: "b"}, Done: true},
		},
		"a pod that is down holds nobody up": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 1,
				Pods: pods{with(pod(0, "a", "a"), down), pod(1, "b", "b")},
			},
			Decision{State: State{Stable: "b"}, Assign: map[string]string{"edge-0": "b"}, Done: true, After: NudgeAfter},
		},
		"no pod serves: all take it": {
			Input{
				State: State{Stable: "a"}, Wanted: "b", Width: 1,
				Pods: pods{with(pod(0, "a", ""), down), with(pod(1, "a", ""), down)},
			},
			Decision{
				State: State{Stable: "a", Candidate: "b"}, Assign: map[string]string{"edge-0": "b", "edge-1": "b"},
				After: NudgeAfter,
			},
		},
		"a canary that is not ready since is no reason to try another": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 2,
				Pods: pods{pod(0, "a", "a"), pod(1, "a", "a"), with(pod(2, "b", "b"), hurt)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}},
		},
		"one that is gone with its node is": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 2,
				Pods: pods{pod(0, "a", "a"), pod(1, "a", "a"), with(pod(2, "b", "b"), down)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, Assign: map[string]string{"edge-1": "b"}, After: NudgeAfter},
		},
		"a pod that a revision hurts takes a place, and keeps it from becoming stable": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 1,
				Pods: pods{pod(0, "a", "a"), with(pod(1, "b", "b"), hurt), pod(2, "b", "b")},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}},
		},
		"a single pod that is not ready takes it, and must prove it": {
			Input{State: State{Stable: "a"}, Wanted: "b", Width: 1, Pods: pods{with(pod(0, "a", "a"), hurt)}},
			Decision{State: State{Stable: "a", Candidate: "b"}, Assign: map[string]string{"edge-0": "b"}, After: NudgeAfter},
		},
		"no agent answers: nothing is tried": {
			Input{
				State: State{Stable: "a"}, Wanted: "b", Width: 1,
				Pods: pods{with(pod(0, "a", "a"), silent), with(pod(1, "a", "a"), silent)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}},
		},
		"stable is lost: the pods go on, and what is wanted must prove itself": {
			Input{Wanted: "b", Width: 1, Pods: pods{pod(0, "a", "a"), pod(1, "a", "a")}},
			Decision{State: State{Candidate: "b"}, Assign: map[string]string{"edge-1": "b"}, After: NudgeAfter},
		},
		"stable is lost, and what is wanted is refused": {
			Input{State: State{Refused: refused}, Wanted: "b", Width: 1, Pods: pods{pod(0, "a", "a"), pod(1, "a", "a")}},
			Decision{State: State{Refused: refused}},
		},
		"nudged three times: the next is later": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 1,
				Pods: pods{
					pod(0, "a", "a"),
					with(pod(1, "b", "a"), func(p *Pod) { p.Nudges, p.AssignedAt = 3, now.Add(-2*time.Second) }),
				},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, After: 6 * time.Second},
		},
		"the canary refuses: it goes back": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", Width: 1,
				Pods: pods{pod(0, "a", "a"), pod(1, "a", "a"), with(pod(2, "b", "a"), refuses)},
			},
			Decision{State: State{Stable: "a", Refused: refused}, Assign: map[string]string{"edge-2": "a"}, After: NudgeAfter},
		},
		"it is not tried again": {
			Input{
				State: State{Stable: "a", Refused: refused}, Wanted: "b", Width: 1,
				Pods: pods{pod(0, "a", "a"), with(pod(1, "a", "a"), refuses)},
			},
			Decision{State: State{Stable: "a", Refused: refused}},
		},
		"a person asks to try again": {
			Input{
				State: State{Stable: "a", Refused: refused}, Wanted: "b", Width: 1, Retry: "1",
				Pods: pods{pod(0, "a", "a"), with(pod(1, "a", "a"), refuses)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, Assign: map[string]string{"edge-1": "b"}, After: NudgeAfter},
		},
		"another edit takes the refused one's place": {
			Input{
				State: State{Stable: "a", Refused: refused}, Wanted: "c", Width: 1,
				Pods: pods{pod(0, "a", "a"), with(pod(1, "a", "a"), refuses)},
			},
			Decision{State: State{Stable: "a", Candidate: "c"}, Assign: map[string]string{"edge-1": "c"}, After: NudgeAfter},
		},
		"the edit is taken back": {
			Input{
				State: State{Stable: "a", Refused: refused}, Wanted: "a", Width: 1,
				Pods: pods{pod(0, "a", "a"), with(pod(1, "a", "a"), refuses)},
			},
			Decision{State: State{Stable: "a"}, Done: true},
		},
		"an edit in the middle: the pod with the old candidate is the canary": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "c", Width: 1,
				Pods: pods{pod(0, "b", "b"), pod(1, "a", "a"), pod(2, "a", "a")},
			},
			Decision{State: State{Stable: "a", Candidate: "c"}, Assign: map[string]string{"edge-0": "c"}, After: NudgeAfter},
		},
		"back to stable in the middle: all at once": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "a", Width: 1,
				Pods: pods{pod(0, "b", "b"), pod(1, "b", "a"), pod(2, "a", "a")},
			},
			Decision{State: State{Stable: "a"}, Assign: map[string]string{"edge-0": "a", "edge-1": "a"}, After: NudgeAfter},
		},
		"only new pods can take it: the old ones are left alone": {
			Input{
				State: State{Stable: "a"}, Wanted: "b", NewPods: true, Replicas: 2, Width: 1,
				Pods: pods{with(pod(0, "a", "a"), old), with(pod(1, "a", "a"), old)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, Replace: "edge-0"},
		},
		"the first new pod is watched: no other is replaced": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", NewPods: true, Replicas: 2, Width: 1,
				Canary: 10 * time.Second,
				Pods:   pods{with(pod(0, "b", "b"), just), with(pod(1, "a", "a"), old)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, After: 9500 * time.Millisecond},
		},
		"the first new pod runs it: the others may be replaced": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", NewPods: true, Replicas: 3, Width: 1,
				Pods: pods{pod(0, "b", "b"), with(pod(1, "a", "a"), old), with(pod(2, "a", "a"), old)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, Replace: "edge-1"},
		},
		"the others have yet to find the new pod": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", NewPods: true, Replicas: 2, Width: 1, Found: time.Minute,
				Pods: pods{with(pod(0, "b", "b"), fresh), with(pod(1, "a", "a"), old)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, After: 50 * time.Second},
		},
		"they need not find it when a pod is replaced that is not ready": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", NewPods: true, Replicas: 2, Width: 1, Found: time.Minute,
				Pods: pods{with(pod(0, "b", "b"), fresh), with(with(pod(1, "a", ""), down), old)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, Replace: "edge-1"},
		},
		"one is being replaced": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", NewPods: true, Replicas: 3, Width: 1,
				Pods: pods{pod(0, "b", "b"), with(pod(2, "a", "a"), old)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}},
		},
		"one that was replaced is not ready": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", NewPods: true, Replicas: 3, Width: 1,
				Pods: pods{pod(0, "b", "b"), with(pod(1, "b", ""), down), with(pod(2, "a", "a"), old)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}},
		},
		"an old one that is not ready goes first": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", NewPods: true, Replicas: 3, Width: 1,
				Pods: pods{with(pod(0, "a", "a"), old), pod(1, "b", "b"), with(with(pod(2, "a", ""), down), old)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, Replace: "edge-2"},
		},
		"unless the order matters": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", NewPods: true, Ordered: true, Replicas: 3, Width: 1,
				Pods: pods{with(pod(0, "a", "a"), old), pod(1, "b", "b"), with(with(pod(2, "a", ""), down), old)},
			},
			Decision{State: State{Stable: "a", Candidate: "b"}, Replace: "edge-0"},
		},
		"another pod template, the same configuration": {
			Input{
				State: State{Stable: "a"}, Wanted: "a", Replicas: 2, Width: 1,
				Pods: pods{with(pod(0, "a", "a"), old), with(pod(1, "a", "a"), old)},
			},
			Decision{State: State{Stable: "a"}, Done: true, Replace: "edge-0"},
		},
		"the first new pod refuses it: no other is replaced": {
			Input{
				State: State{Stable: "a", Candidate: "b"}, Wanted: "b", NewPods: true, Replicas: 3, Width: 1,
				Pods: pods{with(pod(0, "a", "a"), old), with(pod(1, "a", "a"), old), with(pod(2, "b", "a"), refuses)},
			},
			Decision{State: State{Stable: "a", Refused: refused}, Assign: map[string]string{"edge-2": "a"}, After: NudgeAfter},
		},
	}
	options := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Decision{}, "Waiting")}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.in.Now, tt.in.Settled = now, true
			if diff := cmp.Diff(tt.want, Decide(tt.in), options); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestConvergence simulates random clusters. The spec changes at any time, pods become unready and ready again, and
// pods refuse some revisions. In the end, all pods must run the wanted revision, or the stable revision if the wanted
// revision was refused.
func TestConvergence(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		in := Input{Wanted: "r0", Width: 1 + random.IntN(3), Replicas: 1 + random.IntN(6), Now: now}
		for i := range in.Replicas {
			in.Pods = append(in.Pods, pod(i, "", "r0"))
		}
		bad := map[string]bool{}
		in.State = Decide(in).State
		for step := range 400 {
			in.Now = in.Now.Add(time.Second)
			if step < 200 && random.IntN(15) == 0 {
				in.Wanted = fmt.Sprintf("r%d", 1+random.IntN(50))
				if _, known := bad[in.Wanted]; !known {
					bad[in.Wanted] = random.IntN(4) == 0
				}
				if in.Wanted == in.State.Stable {
					bad[in.Wanted] = false
				}
			}
			d := Decide(in)
			if again := Decide(in); !cmp.Equal(d, again) {
				t.Fatalf("seed %d: two decisions on one input", seed)
			}
			in.State = d.State
			for i := range in.Pods {
				p := &in.Pods[i]
				if revision, ok := d.Assign[p.Name]; ok {
					p.Assigned, p.AssignedAt = revision, in.Now
				}
				if step < 200 && random.IntN(30) == 0 {
					p.Ready = false
				} else if random.IntN(3) == 0 || step > 200 {
					p.Ready = true
				}
				if p.Ready && p.Assigned != p.Revision && random.IntN(2) == 0 &&
					(p.Assigned == in.State.Stable || p.Assigned == in.State.Candidate) {
					if bad[p.Assigned] && p.Assigned != in.State.Stable {
						p.Refused = &agentapi.Refusal{Revision: p.Assigned, Message: "no"}
					} else {
						p.Revision, p.Since, p.Refused = p.Assigned, in.Now, nil
					}
				}
			}
		}
		d := Decide(in)
		want := in.Wanted
		if bad[want] && d.State.Stable != want {
			want = d.State.Stable
			if d.State.Refused == nil || d.Done {
				t.Errorf("seed %d: a bad revision is wanted, and it is not said", seed)
			}
		} else if !d.Done {
			t.Errorf("seed %d: not done: %+v", seed, d)
		}
		for _, p := range in.Pods {
			if p.Revision != want {
				t.Errorf("seed %d: %s runs %s, want %s", seed, p.Name, p.Revision, want)
			}
		}
	}
}
