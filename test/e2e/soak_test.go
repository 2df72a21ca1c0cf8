package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

// soak purges objects all the time, and remembers what was purged when.
type soak struct {
	*suite
	// groups is how many groups of objects there are, and each is how many purges are created after each publication,
	// every so often.
	groups, each int
	every        time.Duration
	lasts        time.Duration

	mutex  sync.Mutex
	purges map[string]*onePurge // by name
}

// onePurge is a purge of a group of objects before a version.
type onePurge struct {
	group                    int
	version                  int64
	created, applied, settle time.Time
}

// newSoak is the soak of the test command: a minute with a purge each second. With CACHENODE_TEST_SOAK it lasts as long
// as that says, with 20 purges a second.
func newSoak(t *testing.T, s *suite) *soak {
	t.Helper()
	k := &soak{
		suite: s, groups: groups, each: 1, every: time.Second, lasts: time.Minute, purges: map[string]*onePurge{},
	}
	if text := os.Getenv("CACHENODE_TEST_SOAK"); text != "" {
		var err error
		k.lasts, err = time.ParseDuration(text)
		must(t, err)
		k.groups, k.each, k.every = 200, 10, 500*time.Millisecond
	}
	return k
}

// soaks purges while clients ask for the objects and while parts of the system end.
func soaks(t *testing.T, s *suite) {
	k := newSoak(t, s)
	var ends []func() []report.Result
	for i := range 2 { // the third pod is deleted
		ends = append(ends, s.target(t, naming.Pod(name, i)).load(t, versionedIn(k.groups), 100, 8))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.create(ctx, t) })
	running.Go(func() {
		for ctx.Err() == nil { // a purge is there for a minute after it has settled
			k.look(ctx, t)
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
		}
	})
	faults := k.faults(t)
	for begun, n := time.Now(), 0; time.Since(begun) < k.lasts; n++ {
		time.Sleep(10 * time.Second)
		fault := faults[n%len(faults)]
		at := time.Now()
		fault.do()
		t.Logf("%s: %s, took %s", at.Format(time.TimeOnly), fault.name, time.Since(at).Round(time.Millisecond))
	}
	cancel()
	running.Wait()
	k.await(t)
	time.Sleep(time.Second) // of requests after the last purge has settled
	k.check(t, ends)
	s.current(t)
}

// fault is something that ends, or cannot be reached.
type fault struct {
	name string
	do   func()
}

// faults come one after another, again and again. Those that take long are for the long soak.
func (k *soak) faults(t *testing.T) []fault {
	pod := func(i int) *target { return k.target(t, naming.Pod(name, i)) }
	list := []fault{
		{"an agent is killed", func() { k.kill(t, name+"-0", "agent") }},
		{"a pod is deleted", func() { kubectl(t, "", "delete", "pod", name+"-2", "--wait=false") }},
		{"the operator is deleted", func() { operatorKubectl(t, "delete", "pods", "--all", "--wait=false") }},
		{"nginx is killed", func() { k.kill(t, name+"-1", "nginx") }},
	}
	if k.lasts <= time.Minute {
		return list
	}
	return append(list,
		fault{"a disk hangs for 15 s", func() {
			p := pod(0)
			uid := string(p.pod(t).UID)
			p.fault(t, "throttle", "disk1", uid, "1")
			time.Sleep(15 * time.Second)
			p.fault(t, "throttle", "disk1", uid, "0")
		}},
		fault{"a disk is shut down and repaired", func() {
			p := pod(1)
			p.fault(t, "shutdown", "disk2")
			p.becomes(t, "disk2", 15*time.Second, "Shutdown", "IOError")
			p.repair(t, "disk2")
		}},
		fault{"a pod is cut off for 15 s", func() { k.cutOff(t, name+"-2", 15*time.Second) }},
	)
}

// cutOff drops the packets from all other nodes to a pod.
func (k *soak) cutOff(t *testing.T, pod string, lasts time.Duration) {
	p := k.target(t, pod).pod(t)
	var others []string
	for node := range strings.FieldsSeq(kubectl(t, "", "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")) {
		if node != p.Spec.NodeName {
			others = append(others, node)
		}
	}
	for _, verb := range []string{"add", "delete"} {
		for _, node := range others {
			cluster(t, "fault", "run", node, "ip", "route", verb, "blackhole", p.Status.PodIP+"/32")
		}
		if verb == "add" {
			time.Sleep(lasts)
		}
	}
}

// create publishes versions and purges some groups after each.
func (k *soak) create(ctx context.Context, t *testing.T) {
	t.Helper()
	tick := time.NewTicker(k.every)
	defer tick.Stop()
	for failures := 0; ctx.Err() == nil; {
		if err := k.publishAndPurge(ctx); err == nil {
			failures = 0
		} else if failures++; failures == 20 && ctx.Err() == nil {
			t.Errorf("purges cannot be created: %v", err)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// publishAndPurge makes a version and purges random groups.
func (k *soak) publishAndPurge(ctx context.Context) error {
	text, err := tryKubectl("", "get", "--raw", "/api/v1/namespaces/"+namespace+"/services/origin:http/proxy/publish")
	if err != nil {
		return err
	}
	version, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return err
	}
	var creating errgroup.Group
	for range k.each {
		creating.Go(func() error {
			group := rand.IntN(k.groups)
			return k.purgeOne(ctx, version, group, k.spec(group))
		})
	}
	return creating.Wait()
}

// purgeOne purges a group of what is older than a version.
func (k *soak) purgeOne(ctx context.Context, version int64, group int, spec v1alpha1.CachePurgeSpec) error {
	one := &onePurge{group: group, version: version, created: time.Now()}
	cp := &v1alpha1.CachePurge{Spec: spec}
	cp.GenerateName, cp.Namespace, cp.Spec.CacheNode = "soak-", namespace, name
	cp.Spec.TTLSecondsAfterFinished = new(int32(60))
	if err := k.Create(ctx, cp); err != nil {
		return err
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.purges[cp.Name] = one
	return nil
}

// spec is a purge of the objects of a group, in one of the ways.
func (k *soak) spec(group int) (spec v1alpha1.CachePurgeSpec) {
	folder := fmt.Sprintf("/versions/t%d/", group)
	switch rand.IntN(3) {
	case 0:
		spec.Tags = []string{fmt.Sprintf("t%d", group)}
	case 1:
		spec.Prefixes = []string{"http://" + name + folder}
	case 2:
		for _, path := range versionedIn(k.groups) {
			if strings.HasPrefix(path, folder) {
				spec.URLs = append(spec.URLs, "http://"+name+path)
			}
		}
	}
	return spec
}

// look notes which purges were applied and have settled. It returns how many have not.
func (k *soak) look(ctx context.Context, t *testing.T) (left int) {
	t.Helper()
	list := &v1alpha1.CachePurgeList{}
	if err := k.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return 1
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for i := range list.Items {
		cp := &list.Items[i]
		one := k.purges[cp.Name]
		if one == nil || !one.settle.IsZero() {
			continue
		}
		if cp.Status.Phase == v1alpha1.PurgeFailed {
			t.Errorf("%s failed: %s", cp.Name, cp.Status.Message)
		}
		if cp.Status.Phase == v1alpha1.PurgeSettled {
			one.applied, one.settle = cp.Status.AppliedAt.Time, cp.Status.SettledAt.Time
		}
	}
	for _, one := range k.purges {
		if one.settle.IsZero() {
			left++
		}
	}
	return left
}

// await waits until all purges have settled.
func (k *soak) await(t *testing.T) {
	t.Helper()
	within(t, 2*time.Minute, func() string {
		if left := k.look(t.Context(), t); left > 0 {
			return fmt.Sprintf("%d purges have not settled:\n%s", left, kubectl(t, "", "get", "cachepurges", "-o", "wide"))
		}
		return ""
	})
}

// check ends the loads, compares what they got with the purges, and reports.
func (k *soak) check(t *testing.T, ends []func() []report.Result) {
	t.Helper()
	settled := newBounds(k.purges, func(p *onePurge) time.Time { return p.settle })
	applied := newBounds(k.purges, func(p *onePurge) time.Time { return p.applied })
	requests, hits, late, old := 0, 0, 0, 0
	for _, end := range ends {
		for _, r := range end() {
			if r.Error != "" {
				continue // faults of pods have tests of their own
			}
			requests++
			if r.Cache == "HIT" {
				hits++
			}
			if want := settled.at(group(r.Path), began(r)); r.Version < want {
				if old++; old < 10 {
					t.Errorf("%s at %s from %s: version %d (%s), and the purge before version %d had settled",
						r.Path, began(r).Format(time.TimeOnly), r.Pod, r.Version, r.Cache, want)
				}
			} else if r.Version < applied.at(group(r.Path), began(r)) {
				late++
			}
		}
	}
	t.Logf("%d requests, %d HITs, %d purges: %d bodies after a purge had settled, %d between applied and settled",
		requests, hits, len(k.purges), old, late)
	k.reportLatency(t)
	if requests < 1000 || hits < requests/10 || len(k.purges) < 10 {
		t.Error("that is too little to show anything")
	}
}

// reportLatency logs how long purges took from the call to Applied.
func (k *soak) reportLatency(t *testing.T) {
	t.Helper()
	var latency []time.Duration
	for _, p := range k.purges {
		latency = append(latency, p.applied.Sub(p.created))
	}
	slices.Sort(latency)
	t.Logf("%d purges from the call to applied: median %s, 99%% within %s, longest %s", len(latency),
		latency[len(latency)/2], latency[len(latency)*99/100], latency[len(latency)-1])
}

// purgesOneByOne purges one URL after another while nothing ends, and reports how long that took.
func purgesOneByOne(t *testing.T, s *suite) {
	k := newSoak(t, s)
	count, tick := 100, time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for range count {
		<-tick.C
		must(t, k.purgeOne(t.Context(), 0, 0, v1alpha1.CachePurgeSpec{URLs: []string{"http://" + name + versionedIn(1)[0]}}))
	}
	k.await(t)
	k.reportLatency(t)
	if len(k.purges) != count {
		t.Errorf("%d purges of %d", len(k.purges), count)
	}
}

// group is that of a path.
func group(path string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(strings.Split(path, "/")[2], "t"))
	if err != nil {
		panic(errors.Join(errors.New(path), err)) // the test's own
	}
	return n
}

// bounds say, for each group and moment, below which version no object may be.
type bounds map[int][]bound

type bound struct {
	since   time.Time
	version int64
}

func newBounds(purges map[string]*onePurge, since func(*onePurge) time.Time) bounds {
	b := bounds{}
	for _, p := range purges {
		b[p.group] = append(b[p.group], bound{since(p), p.version})
	}
	for _, list := range b {
		slices.SortFunc(list, func(a, b bound) int { return a.since.Compare(b.since) })
		for i := range list[1:] {
			list[i+1].version = max(list[i].version, list[i+1].version)
		}
	}
	return b
}

// at is the bound of a group at a moment.
func (b bounds) at(group int, moment time.Time) int64 {
	list := b[group]
	i, _ := slices.BinarySearchFunc(list, moment, func(b bound, at time.Time) int {
		return cmp.Or(b.since.Compare(at), -1) // before what begins at that moment or later
	})
	if i == 0 {
		return 0
	}
	return list[i-1].version
}
