package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/steps"
)

// purgers replaces the agents of the pods, as far as they handle purges. An agent applies the updates that it gets,
// unless the test has broken it or holds it back.
type purgers struct {
	mutex    sync.Mutex
	journals map[string]*purge.Journal // by address
	broken   map[string]bool
	held     map[string]bool
	stale    map[string][]string
	// losesStale is the number of the next requests with URLs to make stale that are lost.
	losesStale int
}

func (s *purgers) send(
	_ context.Context, _ *agentclient.Client, address string, update purge.Update,
) (purge.Done, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.losesStale > 0 && len(update.Stale) > 0 {
		s.losesStale--
		return purge.Done{}, errors.New("lost")
	}
	if s.broken[address] {
		return purge.Done{}, errors.New("no answer")
	}
	if s.journals[address] == nil {
		s.journals[address] = &purge.Journal{}
	}
	j := s.journals[address]
	if len(update.Stale) > 0 {
		s.stale[address] = append(s.stale[address], update.Stale...)
	}
	if update.After <= j.Head {
		j.Merge(update.Floor, update.Head, update.Rules)
	}
	done := purge.Done{Head: j.Head, Applied: j.Head, Stores: []purge.StoreDone{{Name: "disk1", Applied: j.Head}}}
	done.Stores[0].Counts = map[int64]purge.Count{}
	for _, r := range j.Rules {
		done.Stores[0].Counts[r.Number] = purge.Count{Files: 2, Bytes: 2000}
	}
	if s.held[address] {
		done.Applied, done.Stores[0].Applied, done.Stores[0].Reason = 0, 0, "the index is being rebuilt"
	}
	return done, nil
}

func (s *purgers) set(change func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	change()
}

// purge creates a CachePurge.
func (o *operator) purge(name string, spec v1alpha1.CachePurgeSpec) *v1alpha1.CachePurge {
	o.t.Helper()
	spec.CacheNode = "edge"
	cp := &v1alpha1.CachePurge{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec}
	must(o.t, o.client.Create(context.Background(), cp))
	return cp
}

// reaches waits until purges are in a phase and their messages contain a text.
func (o *operator) reaches(phase v1alpha1.PurgePhase, message string, purges ...*v1alpha1.CachePurge) {
	o.t.Helper()
	for _, cp := range purges {
		o.eventually(func() string {
			o.get(cp)
			if cp.Status.Phase == phase && strings.Contains(cp.Status.Message, message) {
				return ""
			}
			return fmt.Sprintf("%s is %s (%s), want %s", cp.Name, cp.Status.Phase, cp.Status.Message, phase)
		})
	}
}

// readJournal returns the journal of the CacheNode edge from the API server.
func readJournal(t *testing.T, o *operator) purge.Journal {
	t.Helper()
	var segments []purge.Segment
	for slot := range purge.Slots {
		configMap := &corev1.ConfigMap{}
		err := o.client.Get(context.Background(),
			client.ObjectKey{Namespace: "default", Name: naming.Purges("edge", slot)}, configMap)
		if apierrors.IsNotFound(err) {
			continue
		}
		must(t, err)
		s, err := purge.DecodeSegment(configMap.BinaryData[naming.PurgesKey])
		must(t, err)
		segments = append(segments, s)
	}
	return purge.Join(segments)
}

// TestPurges follows CachePurges through their phases. In some steps, agents do not answer, the operator stops, or the
// journal is lost.
func TestPurges(t *testing.T) {
	t.Parallel()
	a := newAgents()
	s := &purgers{
		journals: map[string]*purge.Journal{}, broken: map[string]bool{}, held: map[string]bool{},
		stale: map[string][]string{},
	}
	play := func(r *CacheNodeReconciler) { r.Agents.Calls.Report, r.Agents.Calls.Purge = a.read, s.send }
	o := startOperator(t, apiserver.Shared(t), play)
	a.set(func() { a.o = o })
	ctx := context.Background()
	cacheNode := o.create(strings.Replace(edge, "replicas: 2", "replicas: 2\n  purge: {grace: 2s}", 1))
	set := children(cacheNode)[0]
	o.eventually(func() string {
		return strings.TrimPrefix(fmt.Sprint(o.client.Get(ctx, client.ObjectKeyFromObject(set), set)), "<nil>")
	})
	o.makePods(cacheNode, 2)
	o.rollOut(cacheNode)
	address := func(ordinal int) string {
		pod := &corev1.Pod{}
		pod.Name, pod.Namespace = naming.Pod("edge", ordinal), "default"
		o.get(pod)
		return pod.Status.PodIP + ":8084"
	}
	journal := &corev1.ConfigMap{}
	journal.Name, journal.Namespace = naming.Purges("edge", 0), "default"
	read := func() purge.Journal {
		t.Helper()
		return readJournal(t, o)
	}
	urls := v1alpha1.CachePurgeSpec{URLs: []string{"https://www.example.com/a"}}

	steps.Run(t, "a purge is applied, and settles after the grace", func() {
		cp := o.purge("first", urls)
		o.reaches(v1alpha1.PurgeApplied, "", cp)
		due := cp.Status.AppliedAt.Add(2 * time.Second)
		o.clock.SetTime(due.Add(-time.Millisecond))
		o.settle(cacheNode)
		if o.get(cp); cp.Status.Phase != v1alpha1.PurgeApplied {
			t.Errorf("before the grace has passed, it is %s", cp.Status.Phase)
		}
		o.clock.SetTime(due)
		o.settle(cacheNode)
		o.get(cp)
		if cp.Status.Phase != v1alpha1.PurgeSettled || !cp.Status.SettledAt.Time.Equal(due) {
			t.Errorf("after the grace, it is %s since %s, want since %s", cp.Status.Phase, cp.Status.SettledAt, due)
		}
		if s := cp.Status; s.Files != 4 || s.SlowestPod == "" || len(s.Pods) != 2 || s.Pods[0].AppliedAt.IsZero() ||
			len(s.Pods[0].Disks) != 1 || s.Pods[0].Disks[0].Files != 2 {
			t.Errorf("the status is %+v", s)
		}
		if j := read(); len(j.Rules) != 1 || j.Rules[0].Until.IsZero() || j.Rules[0].Number != cp.Status.Number {
			t.Errorf("the journal is %+v", j)
		}
	})
	steps.Run(t, "nothing is written at rest", func() {
		o.writesNothingWhile(func() {
			o.ownersAreKnown(cacheNode)
			o.settle(cacheNode)
		}, func() {
			before := o.queues.purges.done.Load()
			o.clock.Step(purge.LookInterval)
			o.eventually(func() string {
				if o.queues.purges.done.Load() > before {
					return ""
				}
				return "the agents are not compared with the journal"
			})
			a.areRead(t)
		})
	})
	steps.Run(t, "many purges take few writes of the journal", func() {
		o.stop() // so that the next operator sees all purges at once
		var many []*v1alpha1.CachePurge
		for i := range 40 {
			many = append(many, o.purge(fmt.Sprintf("many-%d", i), urls))
		}
		o = o.again(t, play)
		a.set(func() { a.o = o })
		o.reaches(v1alpha1.PurgeSettled, "", many...)
		n := 0
		_, writes := o.requests.take()
		for _, w := range writes {
			if strings.Contains(w, "/configmaps/"+naming.Purges("edge", 0)) {
				n++
			}
		}
		if n > 4 || n == 0 {
			t.Errorf("%d writes of the journal for 40 purges with an end each", n)
		}
	})
	steps.Run(t, "a pod that does not answer, and one that cannot yet, keep it pending", func() {
		first, second := address(0), address(1)
		s.set(func() { s.broken[second] = true })
		cp := o.purge("pending", v1alpha1.CachePurgeSpec{Tags: []string{"news"}, Mode: v1alpha1.PurgeSoft})
		o.reaches(v1alpha1.PurgePending, "edge-1: its agent: no answer", cp)
		s.set(func() { s.broken[second] = false })
		o.reaches(v1alpha1.PurgeApplied, "", cp)
		o.reaches(v1alpha1.PurgeSettled, "", cp)
		s.set(func() { s.held[first] = true })
		cp = o.purge("rebuilding", urls)
		o.reaches(v1alpha1.PurgePending, "edge-0: disk1: the index is being rebuilt", cp)
		s.set(func() { s.held[first] = false })
		o.reaches(v1alpha1.PurgeApplied, "", cp)
		o.reaches(v1alpha1.PurgeSettled, "", cp)
	})
	steps.Run(t, "another operator goes on with what the first has begun", func() {
		second := address(1)
		s.set(func() { s.broken[second] = true })
		cp := o.purge("handed-over", urls)
		o.reaches(v1alpha1.PurgePending, "no answer", cp)
		number := cp.Status.Number
		o.stop()
		meanwhile := o.purge("meanwhile", urls)
		s.set(func() { s.broken[second] = false })
		o = o.again(t, play)
		a.set(func() { a.o = o })
		o.reaches(v1alpha1.PurgeSettled, "", cp, meanwhile)
		if cp.Status.Number != number || meanwhile.Status.Number <= number {
			t.Errorf("the numbers are %d, before %d, and %d", cp.Status.Number, number, meanwhile.Status.Number)
		}
	})
	steps.Run(t, "a journal that is deleted is written again", func() {
		before := read()
		must(t, o.client.Delete(ctx, journal))
		o.eventually(func() string {
			err := o.client.Get(ctx, client.ObjectKeyFromObject(journal), journal)
			if apierrors.IsNotFound(err) {
				return "there is no journal"
			}
			must(t, err)
			return ""
		})
		if after := read(); after.Head != before.Head || len(after.Rules) != len(before.Rules) {
			t.Errorf("the journal has %d rules to %d, before %d to %d",
				len(after.Rules), after.Head, len(before.Rules), before.Head)
		}
	})
	steps.Run(t, "a journal that is lost with the operator begins where agents are", func() {
		second := address(1)
		s.set(func() { s.broken[second] = true })
		open := o.purge("open", urls)
		o.reaches(v1alpha1.PurgePending, "no answer", open)
		before := read()
		o.stop()
		must(t, o.client.Delete(ctx, journal))
		a.set(func() { a.purgeHead, a.silent["edge-0"] = before.Head, true })
		o = o.again(t, play)
		a.set(func() { a.o = o })
		o.reaches(v1alpha1.PurgePending, "some agents have not answered", open) // and neither Applied nor Settled
		o.requests.take()
		a.set(func() { a.silent["edge-0"] = false })
		s.set(func() { s.broken[second] = false })
		cp := o.purge("after", urls)
		o.reaches(v1alpha1.PurgeSettled, "", cp, open)
		// Another operator that finds the new journal must not mistake the lost place for the place of a purge that has
		// ended.
		_, writes := o.requests.take()
		status := slices.IndexFunc(writes, func(w string) bool { return strings.Contains(w, "/cachepurges/open/status") })
		next := slices.IndexFunc(writes, func(w string) bool { return strings.Contains(w, "/configmaps") })
		if status < 0 || next < 0 || status > next {
			t.Errorf("the status is not written before the next journal: %v", writes)
		}
		if j := read(); j.Floor != before.Head || cp.Status.Number <= before.Head {
			t.Errorf("the floor is %d and the number %d; agents had %d", j.Floor, cp.Status.Number, before.Head)
		}
	})
	steps.Run(t, "URLs at which clients have changed something are sent to each agent once", func() {
		before := read()
		s.set(func() { s.losesStale = 4 }) // two requests to each of the two agents
		a.set(func() {
			a.unsafe = []agentapi.UnsafeURL{{Number: 5, URL: "https://www.example.com/a"}, {Number: 7, URL: "no URL"}}
		})
		o.eventually(func() string {
			s.mutex.Lock()
			defer s.mutex.Unlock()
			if len(s.stale) < 2 {
				return fmt.Sprintf("%d agents got URLs", len(s.stale))
			}
			return ""
		})
		a.areRead(t)
		for range 3 {
			o.pass(cacheNode)
		}
		s.set(func() {
			for address, urls := range s.stale { // both agents report the URL, perhaps in different passes
				if len(urls) > 2 || urls[0] != "https://www.example.com/a" {
					t.Errorf("%s got %q", address, urls)
				}
			}
		})
		if after := read(); after.Head != before.Head {
			t.Error("they are in the journal")
		}
		a.set(func() { a.unsafe = nil })
	})
	steps.Run(t, "a journal that is larger than a segment", func() {
		before := read()
		spec := v1alpha1.CachePurgeSpec{}
		for i := range 1000 {
			spec.URLs = append(spec.URLs, fmt.Sprintf("https://www.example.com/%d/%s", i, strings.Repeat("x", 150)))
		}
		var large []*v1alpha1.CachePurge
		for i := range 6 {
			large = append(large, o.purge(fmt.Sprintf("large-%d", i), spec))
		}
		o.reaches(v1alpha1.PurgeSettled, "", large...)
		if after := read(); len(after.Rules) != len(before.Rules)+6 || after.Floor != before.Floor {
			t.Errorf("%d rules from %d, before %d from %d", len(after.Rules), after.Floor, len(before.Rules), before.Floor)
		}
		last := &corev1.ConfigMap{}
		last.Name, last.Namespace = naming.Purges("edge", 3), "default"
		o.get(last)
	})
	steps.Run(t, "bad input", func() {
		for name, spec := range map[string]v1alpha1.CachePurgeSpec{
			"nothing":    {},
			"fragment":   {URLs: []string{"https://www.example.com/a#b"}},
			"no-scheme":  {URLs: []string{"www.example.com/a"}},
			"space":      {URLs: []string{"https://www.example.com/a b"}},
			"whole-host": {Prefixes: []string{"https://www.example.com/"}},
			"query":      {Prefixes: []string{"https://www.example.com/a?b"}},
			"star":       {Hosts: []string{"*.example.com"}},
			"long-tag":   {Tags: []string{strings.Repeat("x", 257)}},
			"two-tags":   {Tags: []string{"a b"}},
			"and-more":   {Everything: true, Tags: []string{"a"}},
			"too-many":   {URLs: make([]string, 1001)},
		} {
			cp := &v1alpha1.CachePurge{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec}
			cp.Spec.CacheNode = "edge"
			if err := o.client.Create(ctx, cp); !apierrors.IsInvalid(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		cp := o.purge("user", v1alpha1.CachePurgeSpec{URLs: []string{"https://www.example.com:port/a"}})
		o.reaches(v1alpha1.PurgeFailed, `spec.urls: "https://www.example.com:port/a": must be a URL`, cp)
		cp.Spec.Everything = true
		if err := o.client.Update(ctx, cp); !apierrors.IsInvalid(err) {
			t.Errorf("the spec was changed: %v", err)
		}
	})
	steps.Run(t, "a finished purge is deleted after its time, and one without a CacheNode waits", func() {
		cp := o.purge("short", v1alpha1.CachePurgeSpec{Everything: true, TTLSecondsAfterFinished: new(int32(1))})
		o.eventually(func() string {
			if apierrors.IsNotFound(o.client.Get(ctx, client.ObjectKeyFromObject(cp), cp)) {
				return ""
			}
			return "it is still there: " + string(cp.Status.Phase)
		})
		alone := &v1alpha1.CachePurge{ObjectMeta: metav1.ObjectMeta{Name: "alone", Namespace: "default"}}
		alone.Spec = v1alpha1.CachePurgeSpec{CacheNode: "none", Everything: true, TTLSecondsAfterFinished: new(int32(1))}
		must(t, o.client.Create(ctx, alone))
		o.reaches(v1alpha1.PurgePending, "there is no CacheNode none in namespace default", alone)
		alone.Status.Phase = v1alpha1.PurgeFailed // as if the purge had failed before the CacheNode was deleted
		must(t, o.client.Status().Update(ctx, alone))
		next := &v1alpha1.CachePurge{ObjectMeta: metav1.ObjectMeta{Name: "next", Namespace: "default"}, Spec: alone.Spec}
		must(t, o.client.Create(ctx, next))
		o.eventually(func() string {
			if apierrors.IsNotFound(o.client.Get(ctx, client.ObjectKeyFromObject(alone), alone)) {
				return ""
			}
			return "a finished purge without a CacheNode is still there"
		})
	})
}
