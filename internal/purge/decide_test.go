package purge_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// noon is the current time in these tests.
var noon = time.Unix(1_800_000_000, 0)

// openLog returns a journal that has a rule without an end for each UID.
func openLog(uids ...string) *purge.Log {
	l := purge.NewLog(0)
	for _, uid := range uids {
		l.Add(noon, purge.Rule{UID: uid, Target: purge.Target{Everything: true}})
	}
	return l
}

// obeying returns a pod that has applied all rules up to a place, and whose agent has just reported this.
func obeying(name string, applied int64) purge.Pod {
	return purge.Pod{Name: name, Done: purge.Done{Head: applied, Applied: applied}, Confirmed: noon, Serves: true}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second
	log := openLog("a")
	place := log.Head
	since := func(ago time.Duration) map[int64]time.Time { return map[int64]time.Time{place: noon.Add(-ago)} }
	unconfirmed := obeying("edge-1", place)
	unconfirmed.Confirmed = noon.Add(-purge.ConfirmedFor - 1)
	starting := purge.Pod{Name: "edge-1", Problem: "no answer", IsUnknown: true}
	stale := obeying("edge-1", place)
	stale.HasStale = true
	silent := obeying("edge-1", place)
	silent.Problem = "no answer"
	pods := func(more ...purge.Pod) []purge.Pod { return append([]purge.Pod{obeying("edge-0", place)}, more...) }
	for name, tt := range map[string]struct {
		pods   []purge.Pod
		obeyed map[int64]time.Time
		want   purge.Actions
	}{
		"no pods": {nil, nil, purge.Actions{Applied: place, Obeyed: since(0), Due: grace}},
		"a pod is behind": {
			pods(obeying("edge-1", place-1)), since(time.Hour),
			purge.Actions{Applied: place - 1, Due: purge.RetryInterval},
		},
		"all obey since now": {pods(), nil, purge.Actions{Applied: place, Obeyed: since(0), Due: grace}},
		"in the grace period": {
			pods(), since(4 * time.Second), purge.Actions{Applied: place, Obeyed: since(4 * time.Second), Due: 6 * time.Second},
		},
		"after the grace period": {
			pods(), since(grace),
			purge.Actions{
				Applied: place, Obeyed: since(grace), Confirm: true, Ends: []int64{place}, Due: purge.RetryInterval / 4,
			},
		},
		"a pod has not confirmed it": {
			pods(unconfirmed), since(grace),
			purge.Actions{Applied: place, Obeyed: since(grace), Confirm: true, Due: purge.RetryInterval / 4},
		},
		"a pod that has not begun is not waited for": {
			pods(starting), since(grace),
			purge.Actions{
				Applied: place, Obeyed: since(grace), Confirm: true, Ends: []int64{place}, Due: purge.RetryInterval / 4,
			},
		},
		"URLs have not reached a pod": {
			pods(stale), since(0), purge.Actions{Applied: place, Obeyed: since(0), Due: purge.RetryInterval},
		},
		"a pod that is silent is asked soon": {
			pods(silent), since(0), purge.Actions{Applied: place, Obeyed: since(0), Due: purge.RetryInterval},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := purge.Decide(purge.State{
				Now: noon, Grace: grace, Log: log, Pods: tt.pods, Obeyed: tt.obeyed, Compacted: noon,
			})
			if tt.want.Obeyed == nil {
				tt.want.Obeyed = map[int64]time.Time{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestARuleEndsOnlyWhereAllObeyIt makes random passes. It checks that a rule ends only if all serving pods have obeyed
// it in each pass of the grace period and have just confirmed this.
func TestARuleEndsOnlyWhereAllObeyIt(t *testing.T) {
	t.Parallel()
	ends := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		s := purge.State{Now: noon, Grace: 3 * time.Second, Log: openLog("a", "b", "c"), Compacted: noon}
		obeyed := map[int64]time.Time{} // the time since which all serving pods obey a rule
		s.Pods = []purge.Pod{obeying("edge-0", 0), obeying("edge-1", 0)}
		for range 40 {
			s.Now = s.Now.Add(time.Duration(random.IntN(1500)) * time.Millisecond)
			p := &s.Pods[random.IntN(2)]
			switch {
			case random.IntN(20) == 0: // another pod has replaced this one
				p.Done.Applied = 0
			case random.IntN(2) == 0:
				p.Done.Applied, p.Confirmed = s.Log.Rules[random.IntN(3)].Number, s.Now
			}
			p.Serves = random.IntN(10) > 0
			a := purge.Decide(s)
			for _, r := range s.Log.Rules {
				isObeyed, isConfirmed := true, true
				for _, p := range s.Pods {
					isObeyed = isObeyed && (!p.Serves || p.Done.Applied >= r.Number)
					isConfirmed = isConfirmed && (!p.Serves || s.Now.Sub(p.Confirmed) <= purge.ConfirmedFor)
				}
				if since, known := obeyed[r.Number]; !isObeyed {
					delete(obeyed, r.Number)
				} else if !known {
					obeyed[r.Number] = s.Now
				} else if may := s.Now.Sub(since) >= s.Grace; may != slices.Contains(a.Ends, r.Number) && r.Until.IsZero() &&
					(may && isConfirmed || !may) {
					t.Fatalf("seed %d: rule %d is obeyed for %s, confirmed: %t; the ends are %v",
						seed, r.Number, s.Now.Sub(since), isConfirmed, a.Ends)
				}
				if slices.Contains(a.Ends, r.Number) && (!isObeyed || !isConfirmed) {
					t.Fatalf("seed %d: rule %d ends, obeyed: %t, confirmed: %t", seed, r.Number, isObeyed, isConfirmed)
				}
			}
			ends += len(a.Ends)
			s.Obeyed, s.Log = a.Obeyed, s.Log.Follow(a, s.Now)
		}
	}
	if ends < 100 {
		t.Errorf("%d rules have ended", ends)
	}
}

// of returns a CachePurge. At noon, its age is ago.
func of(uid string, ago time.Duration, status v1alpha1.CachePurgeStatus) v1alpha1.CachePurge {
	cp := v1alpha1.CachePurge{Spec: v1alpha1.CachePurgeSpec{CacheNode: "edge"}, Status: status}
	cp.Namespace, cp.Name, cp.UID = "shop", uid, types.UID(uid)
	cp.CreationTimestamp = metav1.NewTime(noon.Add(-ago))
	return cp
}

// TestUnplaced checks which purges get a place, and that the oldest purge gets the first place.
func TestUnplaced(t *testing.T) {
	t.Parallel()
	log := openLog("placed")
	log.Floor = 5
	deleted := of("deleted", 0, v1alpha1.CachePurgeStatus{})
	deleted.DeletionTimestamp = new(metav1.NewTime(noon))
	s := purge.State{Now: noon, Log: log, Lost: map[types.UID]bool{"lost": true}, Purges: []v1alpha1.CachePurge{
		of("new", time.Minute, v1alpha1.CachePurgeStatus{}),
		of("placed", time.Hour, v1alpha1.CachePurgeStatus{}),
		of("older", time.Hour, v1alpha1.CachePurgeStatus{}),
		of("failed", time.Hour, v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeFailed}),
		of("forgotten", time.Hour, v1alpha1.CachePurgeStatus{Number: 4}),
		of("lost", 3*time.Hour, v1alpha1.CachePurgeStatus{Number: 3}),
		of("lost at the end", 2*time.Hour, v1alpha1.CachePurgeStatus{Number: 6}),
		deleted,
	}}
	var names []string
	for _, cp := range s.Unplaced() {
		names = append(names, cp.Name)
	}
	if diff := cmp.Diff([]string{"lost", "lost at the end", "older", "new"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	log := openLog("a")
	place, at := log.Head, metav1.NewMicroTime(noon)
	before := metav1.NewMicroTime(noon.Add(-time.Hour))
	type status = v1alpha1.CachePurgeStatus
	applied := status{Number: place, Phase: v1alpha1.PurgeApplied, AppliedAt: &before, Files: 7, Bytes: 700}
	for name, tt := range map[string]struct {
		before status
		change func(*purge.State)
		want   status // without pods and conditions
	}{
		"it has a place": {status{}, nil, status{Number: place, Phase: v1alpha1.PurgeApplied, AppliedAt: &at}},
		"counts do not sink, and it was applied when it was": {
			applied, nil,
			status{Number: place, Phase: v1alpha1.PurgeApplied, AppliedAt: &before, Files: 7, Bytes: 700},
		},
		"the operator has just begun": {
			applied, func(s *purge.State) { s.Pods[0] = purge.Pod{Name: "edge-0", IsUnknown: true, Serves: true} }, applied,
		},
		"it can get no place": {
			status{},
			func(s *purge.State) {
				s.Log, s.Held = openLog(), map[types.UID]purge.Held{"a": {Message: "spec.urls: bad", IsFinal: true}}
			},
			status{Phase: v1alpha1.PurgeFailed, Message: "spec.urls: bad"},
		},
		"it waits for a place, and has lost one": {
			status{Number: 3, Phase: v1alpha1.PurgePending},
			func(s *purge.State) {
				s.Log, s.Held = purge.NewLog(5), map[types.UID]purge.Held{"a": {Message: "the journal is full"}}
			},
			status{Phase: v1alpha1.PurgePending, Message: "the journal is full"},
		},
		"it had ended when the journal forgot it": {
			status{Number: 3, Phase: v1alpha1.PurgeApplied, AppliedAt: &before},
			func(s *purge.State) { s.Log = purge.NewLog(5) },
			status{Number: 3, Phase: v1alpha1.PurgeSettled, AppliedAt: &before, SettledAt: &at},
		},
		"the journal is not known": {
			applied, func(s *purge.State) {
				s.Log, s.Held = nil, map[types.UID]purge.Held{"a": {Message: "some agents have not answered"}}
			},
			status{
				Number: place, Phase: v1alpha1.PurgeApplied, AppliedAt: &before, Files: 7, Bytes: 700,
				Message: "some agents have not answered",
			},
		},
		"its place was lost with the journal": {
			status{Number: 3, Phase: v1alpha1.PurgePending},
			func(s *purge.State) { s.Log, s.Lost = nil, map[types.UID]bool{"a": true} },
			status{Phase: v1alpha1.PurgePending},
		},
		"its place was lost, and the cache shows it still": {
			status{Number: 3, Phase: v1alpha1.PurgePending},
			func(s *purge.State) { s.Log, s.Lost = purge.NewLog(5), map[types.UID]bool{"a": true} },
			status{Phase: v1alpha1.PurgePending},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := purge.State{Now: noon, Log: log, Pods: []purge.Pod{obeying("edge-0", place)}}
			s.Purges = []v1alpha1.CachePurge{of("a", time.Hour, tt.before)}
			if tt.change != nil {
				tt.change(&s)
			}
			changes := s.Statuses()
			if len(changes) != 1 {
				t.Fatalf("%d changes", len(changes))
			}
			next := changes[0].Next
			if len(next.Conditions) != 4 {
				t.Errorf("the conditions are %v", next.Conditions)
			}
			s.Purges[0].Status = next
			if again := s.Statuses(); len(again) > 0 {
				t.Errorf("a second pass changes %s", cmp.Diff(next, again[0].Next))
			}
			next.Conditions, next.Pods, next.SlowestPod = nil, nil, ""
			if diff := cmp.Diff(tt.want, next); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOrphans checks the status of purges whose CacheNode does not exist, and when they fail.
func TestOrphans(t *testing.T) {
	t.Parallel()
	const (
		waits  = "there is no CacheNode edge in namespace shop"
		failed = "there was no CacheNode edge in namespace shop for an hour"
		half   = time.Hour / 2
	)
	type status = v1alpha1.CachePurgeStatus
	applied := status{Number: 7, Phase: v1alpha1.PurgeApplied}
	for name, tt := range map[string]struct {
		created, since time.Duration // ago
		before         status
		phase          v1alpha1.PurgePhase
		message        string
		due            time.Duration
	}{
		"new":                        {0, 0, status{}, v1alpha1.PurgePending, waits, time.Hour},
		"after half an hour":         {half, half, status{}, v1alpha1.PurgePending, waits, half},
		"after an hour":              {time.Hour, time.Hour, status{}, v1alpha1.PurgeFailed, failed, time.Hour},
		"the CacheNode was there":    {9 * time.Hour, half, status{}, v1alpha1.PurgePending, waits, half},
		"created later":              {half, 9 * time.Hour, status{}, v1alpha1.PurgePending, waits, half},
		"it had a place":             {0, half, status{Number: 7, Phase: "Pending"}, v1alpha1.PurgePending, waits, time.Hour},
		"it was applied":             {9 * time.Hour, 0, applied, v1alpha1.PurgeApplied, "", time.Hour},
		"it was applied an hour ago": {9 * time.Hour, time.Hour, applied, v1alpha1.PurgeSettled, "", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := purge.State{Now: noon, Purges: []v1alpha1.CachePurge{of("a", tt.created, tt.before)}}
			changes, due := s.Orphans(noon.Add(-tt.since))
			if len(changes) != 1 || due != tt.due {
				t.Fatalf("%d changes, the next look in %s, want %s", len(changes), due, tt.due)
			}
			next := changes[0].Next
			if next.Phase != tt.phase || !strings.HasPrefix(next.Message, tt.message) || next.Number != tt.before.Number {
				t.Errorf("%s, %q, want %s, %q", next.Phase, next.Message, tt.phase, tt.message)
			}
		})
	}
}

// TestExpired checks when finished purges are deleted.
func TestExpired(t *testing.T) {
	t.Parallel()
	settled := metav1.NewMicroTime(noon.Add(-time.Minute))
	finished := v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeSettled, SettledAt: &settled}
	failed := v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeFailed}
	for name, tt := range map[string]struct {
		seconds int32 // 0: the purge sets no time
		ttl     time.Duration
		status  v1alpha1.CachePurgeStatus
		expired int
		due     time.Duration
	}{
		"its time has come":       {60, 0, finished, 1, purge.CompactInterval},
		"a second is left":        {61, 0, finished, 0, time.Second},
		"it stays":                {0, 0, finished, 0, purge.CompactInterval},
		"the default has passed":  {0, time.Minute, finished, 1, purge.CompactInterval},
		"it has not ended":        {1, 0, v1alpha1.CachePurgeStatus{}, 0, purge.CompactInterval},
		"it failed: from its age": {7199, 0, failed, 1, purge.CompactInterval},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cp := of("a", 2*time.Hour, tt.status)
			if tt.seconds > 0 {
				cp.Spec.TTLSecondsAfterFinished = &tt.seconds
			}
			s := purge.State{Now: noon, Purges: []v1alpha1.CachePurge{cp}}
			if expired, due := s.Expired(tt.ttl); len(expired) != tt.expired || due != tt.due {
				t.Errorf("%d expired, the next in %s, want %d, %s", len(expired), due, tt.expired, tt.due)
			}
		})
	}
}

// TestRuleOf checks that a purge that cannot be carried out is refused with an error that names the path of the field.
func TestRuleOf(t *testing.T) {
	t.Parallel()
	policy := v1alpha1.Cache{Key: []v1alpha1.KeyPart{v1alpha1.KeyScheme, v1alpha1.KeyHost, v1alpha1.KeyRequestURI}}
	var long []string
	for i := range 1000 {
		long = append(long, fmt.Sprintf("http://www.example.com/%d/%s", i, strings.Repeat("x", 1000)))
	}
	for name, tt := range map[string]struct {
		spec v1alpha1.CachePurgeSpec
		want string
	}{
		"good":      {v1alpha1.CachePurgeSpec{Hosts: []string{"WWW.example.com"}, Mode: v1alpha1.PurgeSoft}, ""},
		"no URL":    {v1alpha1.CachePurgeSpec{URLs: []string{"http://a:port/"}}, `spec.urls: "http://a:port/": must be`},
		"too large": {v1alpha1.CachePurgeSpec{URLs: long}, "spec: has 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cp := of("a", 0, v1alpha1.CachePurgeStatus{})
			rule, err := purge.RuleOf(&cp, tt.spec, policy)
			if tt.want == "" {
				want := purge.Rule{UID: "a", Name: "a", Soft: true, Target: purge.Target{Hosts: []string{"www.example.com"}}}
				if diff := cmp.Diff(want, rule); err != nil || diff != "" {
					t.Errorf("%v, %s", err, diff)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}
