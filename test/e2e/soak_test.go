package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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

// soak purges objects all the time, and records when it purged which objects.
type soak struct {
	*suite
	// groups is the number of groups of objects. each is the number of purges after each publication, and every is the
	// time between two publications. lasts is the duration of the long soak test; 0 for the short one.
	groups, each int
	every        time.Duration
	lasts        time.Duration
	// loads request the objects from pods 0 and 1. Pod 2 has no load, because one of the faults deletes it. results
	// contains the results of the loads that have ended.
	loads   [2]load[report.Result]
	results []report.Result
	// whole is the number of publications after which all objects are purged.
	whole int

	mutex  sync.Mutex
	purges map[string]*onePurge // by name
	// ended maps the name of a fault to the number of times that it occurred.
	ended map[string]int
}

// onePurge is a purge that removes the versions of a group's objects that are older than version.
type onePurge struct {
	group   int
	version int64
	// kind is the way in which the purge selects objects, such as tags.
	kind                     string
	mode                     v1alpha1.PurgeMode
	created, applied, settle time.Time
}

// newSoak returns the settings of the soak test. By default, each fault occurs once, and there is one purge each
// second. If CACHENODE_TEST_SOAK is set, the test lasts for this duration, with more faults and 20 purges a second.
func newSoak(t *testing.T, s *suite) *soak {
	t.Helper()
	k := &soak{
		suite: s, groups: groups, each: 1, every: time.Second, whole: 10,
		purges: map[string]*onePurge{}, ended: map[string]int{},
	}
	if text := os.Getenv("CACHENODE_TEST_SOAK"); text != "" {
		var err error
		k.lasts, err = time.ParseDuration(text)
		must(t, err)
		k.groups, k.each, k.every, k.whole = 200, 10, 500*time.Millisecond, 60
	}
	return k
}

// soaks purges objects while clients request them and while faults stop parts of the system.
func soaks(t *testing.T, s *suite) {
	k := newSoak(t, s)
	for i := range k.loads {
		k.ask(t, i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.create(ctx, t) })
	running.Go(func() {
		for ctx.Err() == nil { // a CachePurge is deleted a minute after it has settled
			k.look(ctx, t)
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
		}
	})
	faults := k.faults(t)
	between := 100
	if k.lasts > 0 {
		between = 500 // of each load
	}
	for begun, n := time.Now(), 0; n < len(faults) || time.Since(begun) < k.lasts; n++ {
		k.more(t, between)
		fault := faults[n%len(faults)]
		at := time.Now()
		fault.do()
		k.ended[fault.name]++
		t.Logf("%s: %s, took %s", at.Format(time.TimeOnly), fault.name, time.Since(at).Round(time.Millisecond))
	}
	cancel()
	running.Wait()
	k.await(t)
	k.more(t, 100) // after the last purge has settled
	k.end()
	k.check(t)
	s.current(t)
}

// ask begins the load of a pod.
func (k *soak) ask(t *testing.T, pod int) {
	t.Helper()
	k.loads[pod] = k.target(t, naming.Pod(name, pod)).load(t, versionedIn(k.groups), 100, 8)
}

// askAgain ends the load of a pod that has been replaced, and starts a new load at the pod's new address.
func (k *soak) askAgain(t *testing.T, pod int) {
	t.Helper()
	k.results = append(k.results, k.loads[pod].end()...)
	k.ask(t, pod)
}

// more waits until n more requests of each load have ended.
func (k *soak) more(t *testing.T, n int) {
	t.Helper()
	for _, load := range k.loads {
		load.more(t, n)
	}
}

// end ends the loads.
func (k *soak) end() {
	for _, load := range k.loads {
		k.results = append(k.results, load.end()...)
	}
}

// create publishes new versions. After each publication, it purges some groups or all objects.
func (k *soak) create(ctx context.Context, t *testing.T) {
	t.Helper()
	tick := time.NewTicker(k.every)
	defer tick.Stop()
	for n, failures := 1, 0; ctx.Err() == nil; n++ {
		if err := k.publishAndPurge(ctx, n%k.whole == 0); err == nil {
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

// publishAndPurge publishes a new version. Then it purges all objects if all is true, and random groups otherwise.
func (k *soak) publishAndPurge(ctx context.Context, all bool) error {
	text, err := tryKubectl("", "get", "--raw", "/api/v1/namespaces/"+namespace+"/services/origin:http/proxy/publish")
	if err != nil {
		return err
	}
	version, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return err
	}
	if all {
		kind, spec := wholeSpec()
		return k.purgeOne(ctx, onePurge{group: allGroups, version: version, kind: kind}, spec)
	}
	var creating errgroup.Group
	for range k.each {
		creating.Go(func() error {
			group := rand.IntN(k.groups)
			kind, spec := k.spec(group)
			return k.purgeOne(ctx, onePurge{group: group, version: version, kind: kind}, spec)
		})
	}
	return creating.Wait()
}

// purgeOne creates a CachePurge. One in four is soft, chosen at random.
func (k *soak) purgeOne(ctx context.Context, one onePurge, spec v1alpha1.CachePurgeSpec) error {
	one.mode, one.created = v1alpha1.PurgeHard, time.Now()
	if rand.IntN(4) == 0 {
		one.mode = v1alpha1.PurgeSoft
	}
	spec.Mode = one.mode
	cp := &v1alpha1.CachePurge{Spec: spec}
	cp.GenerateName, cp.Namespace, cp.Spec.CacheNode = "soak-", namespace, name
	cp.Spec.TTLSecondsAfterFinished = new(int32(60))
	if err := k.Create(ctx, cp); err != nil {
		return err
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.purges[cp.Name] = &one
	return nil
}

// wholeSpec returns the spec of a purge of all objects. It chooses the way to select them at random.
func wholeSpec() (kind string, spec v1alpha1.CachePurgeSpec) {
	if rand.IntN(2) == 0 {
		return "hosts", v1alpha1.CachePurgeSpec{Hosts: []string{name}}
	}
	return "everything", v1alpha1.CachePurgeSpec{Everything: true}
}

// spec returns the spec of a purge of a group's objects. It chooses the way to select them at random.
func (k *soak) spec(group int) (kind string, spec v1alpha1.CachePurgeSpec) {
	folder := fmt.Sprintf("/versions/t%d/", group)
	switch rand.IntN(3) {
	case 0:
		kind, spec.Tags = "tags", []string{fmt.Sprintf("t%d", group)}
	case 1:
		kind, spec.Prefixes = "prefixes", []string{"http://" + name + folder}
	case 2:
		kind = "urls"
		for _, path := range versionedIn(k.groups) {
			if strings.HasPrefix(path, folder) {
				spec.URLs = append(spec.URLs, "http://"+name+path)
			}
		}
	}
	return kind, spec
}

// look records which purges have settled, and when they were applied and settled. It returns the number of purges that
// have not settled.
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

// purgesAtRate purges 1,000 URLs a second, in 40 CachePurges of 25 URLs each, like those that the HTTP endpoint
// creates. It does this for five seconds, or for thirty seconds in the long soak test.
func purgesAtRate(t *testing.T, s *suite) {
	const perSecond, urls = 40, 25
	k := newSoak(t, s)
	seconds := 5
	if k.lasts > 0 {
		seconds = 30
	}
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	begun := time.Now()
	var creating errgroup.Group
	creating.SetLimit(16)
	for n := range seconds * perSecond {
		<-tick.C
		var spec v1alpha1.CachePurgeSpec
		for i := range urls {
			spec.URLs = append(spec.URLs, fmt.Sprintf("http://%s/rate/%d/%d", name, n, i))
		}
		creating.Go(func() error { return k.purgeOne(t.Context(), onePurge{kind: "urls"}, spec) })
	}
	must(t, creating.Wait())
	took := time.Since(begun)
	rate := float64(seconds*perSecond*urls) / took.Seconds()
	t.Logf("%d URLs in %d CachePurges were named in %s, %.0f a second", seconds*perSecond*urls, len(k.purges),
		took.Round(100*time.Millisecond), rate)
	if isLong && rate < 900 {
		t.Errorf("%.0f URLs a second were named, want 1,000", rate)
	}
	k.await(t)
	k.reportLatency(t)
	if len(k.purges) != seconds*perSecond {
		t.Errorf("%d purges of %d", len(k.purges), seconds*perSecond)
	}
}

// purgesOneByOne purges one URL after another without faults, and reports how long the purges took.
func purgesOneByOne(t *testing.T, s *suite) {
	k := newSoak(t, s)
	count, tick := 100, time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for range count {
		<-tick.C
		spec := v1alpha1.CachePurgeSpec{URLs: []string{"http://" + name + versionedIn(1)[0]}}
		must(t, k.purgeOne(t.Context(), onePurge{kind: "urls"}, spec))
	}
	k.await(t)
	k.reportLatency(t)
	if len(k.purges) != count {
		t.Errorf("%d purges of %d", len(k.purges), count)
	}
}
