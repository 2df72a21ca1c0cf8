package purge_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestStandInDisk checks that a purge finds the copies that a disk has stored while another disk was out of use.
func TestStandInDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	s.wants("MISS", 0, both...)
	s.facts.Failed = []string{"disk1"}
	s.takes()
	for _, path := range both { // now disk2 has all objects
		s.get(path, "phone")
		s.get(path, "desk")
	}
	s.wants("HIT", 0, both...)
	s.facts.Failed = nil
	s.takes()
	s.publish()
	s.purge(purge.Target{Tags: []string{"a", "b", "c"}}, false)
	s.facts.Failed = []string{"disk1"}
	s.takes()
	s.wants("MISS", 1, both...)
}

// pair is two pods that share keys and an origin, each with a purger of its own.
type pair [2]*site

func newPair(t *testing.T, spec string) (p pair) {
	t.Helper()
	return newPairEdited(t, nginxtest.Patient, spec)
}

// newPairEdited returns a pair whose configurations are changed by the function edit.
func newPairEdited(t *testing.T, edit func(text string) string, spec string) (p pair) {
	t.Helper()
	for i := range p {
		p[i] = prepareSite(t, "  routing: {mode: Sharded, tls: \"Off\"}\n"+spec)
	}
	addresses := nginxtest.Connect(t, p[0].nginx, p[1].nginx)
	for i, s := range p {
		s.facts.Fleet, s.addresses, s.edit = cache.Fleet{Fleet: fleet.Of(len(p)), Self: i}, addresses, edit
		s.start(p[0].origin)
	}
	return p
}

// render returns the configuration for the site's facts.
func (s *site) render() cache.Config {
	s.t.Helper()
	config := nginxtest.RenderWith(s.t, s.yaml, s.facts)
	config.Text = nginxtest.WithAddresses(config.Text, s.addresses)
	if s.edit != nil {
		config.Text = s.edit(config.Text)
	}
	return config
}

// tell sends the journal of the first pod to both pods, and waits until both have applied it.
func (p pair) tell() {
	p[1].journal = p[0].journal
	for _, s := range p {
		s.t.Helper()
		s.send()
	}
}

func (p pair) purge(t purge.Target) purge.Rule {
	r := p[0].journal.Add(machine.Now(), purge.Rule{UID: "uid", Name: "test", Target: t})
	p.tell()
	return r
}

// ownedBySecond returns a path whose key the second pod owns.
func ownedBySecond(t *testing.T) string {
	t.Helper()
	for _, path := range both {
		if owner, _, _, ok := fleet.Of(2).Holders(url(path)); ok && owner == 1 {
			return path
		}
	}
	t.Fatal("the second pod owns nothing")
	return ""
}

// TestStandInPod checks that a purge finds the copies that a pod has stored while the owner of the key did not answer.
func TestStandInPod(t *testing.T) {
	t.Parallel()
	p := newPairEdited(t, nginxtest.Hasty, "  memoryTier: {enabled: false}\n")
	path := ownedBySecond(t)
	p[0].wants("MISS", 0, path)
	p[1].nginx.Disconnect()
	p[0].wants("MISS", 0, path)
	p[0].wants("HIT", 0, path)
	p[1].nginx.Reconnect()
	p[0].publish()
	p.purge(purge.Target{URLs: []string{url(path)}})
	p[1].nginx.Disconnect()
	p[0].wants("MISS", 1, path)
	p[1].nginx.Reconnect()
	p[1].wants("MISS", 1, path)
}

// TestFilledFromDisk checks that a purge finds the objects that a disk has fetched from the disk that had the key
// before.
func TestFilledFromDisk(t *testing.T) {
	t.Parallel()
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "  memoryTier: {enabled: false}\n")
			s.facts.Failed = []string{"disk2"}
			s.takes()
			s.wants("MISS", 0, both...)
			s.facts.Failed = nil
			s.facts.Fleet.Disks = fleet.Disks{
				Members: []fleet.Disk{{Name: "disk1", Weight: 1}}, Until: machine.Now().Add(time.Hour),
			}
			s.takes()
			s.publish()
			for _, path := range both {
				if status, version := s.get(path, "phone"); version != 0 {
					t.Errorf("%s: %s of version %d: it was not filled", path, status, version)
				}
			}
			s.purge(target, false)
			s.wants("MISS", 1, both...)
		})
	}
}

// TestFilledFromPod checks that a purge finds the objects that a pod has fetched from the previous owner of the key.
func TestFilledFromPod(t *testing.T) {
	t.Parallel()
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "  memoryTier: {enabled: false}\n")
			path := ownedBySecond(t)
			before, after := fleet.Of(1), fleet.Of(2)
			after.Previous = before.Owners
			route := func(f fleet.Fleet) {
				for _, s := range p {
					s.facts.Fleet.Fleet = f
					s.takes()
				}
			}
			route(before)
			p[0].wants("MISS", 0, path)
			route(after)
			p[0].publish()
			p[1].wants("MISS", 0, path) // filled
			p.purge(target)
			p[1].wants("MISS", 1, path)
		})
	}
}

// targets are purges that match all objects of these tests. None of them uses the target Everything.
var targets = map[string]purge.Target{
	"tags":     {Tags: []string{"a", "b", "c"}},
	"hosts":    {Hosts: []string{host}},
	"prefixes": {Prefixes: []string{url("/a"), url("/b"), url("/c")}},
}

// TestPurgesUnderLoad checks that a request that begins after the end of a purge never gets an object from before the
// purge. Meanwhile, objects are fetched, passed between pods and copied to memory all the time.
func TestPurgesUnderLoad(t *testing.T) {
	t.Parallel()
	p := newPair(t, nginxtest.MemoryTier("minUses: 2"))
	origin := p[0]
	origin.size = large
	slow := machine.NewTicker(5 * time.Millisecond) // one answer for each tick, so that many are in flight
	defer slow.Stop()
	origin.answers(func(string) { <-slow.C() }, nil)
	var least, old, asked atomic.Int64
	var mutex sync.Mutex
	ways := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for i := range 8 {
		load.Go(func() {
			for ctx.Err() == nil {
				s, path, want := p[i%2], both[rand.N(len(both))], least.Load()
				response, version := s.fetch(path, "phone")
				if int64(version) < want && old.Add(1) < 5 {
					t.Logf("%s: version %d (%s), want %d", path, version, response.Header, want)
				}
				asked.Add(1)
				mutex.Lock()
				ways[response.Header.Get("X-Cache-Hop")+" "+response.Header.Get("X-Cache")]++
				mutex.Unlock()
			}
		})
	}
	goesOn := func() { // waits until many more requests were answered, some from memory
		mutex.Lock()
		hot, before := ways["memory HIT"], asked.Load()
		mutex.Unlock()
		await.True(t, "nothing is served from memory", func() bool {
			mutex.Lock()
			defer mutex.Unlock()
			return ways["memory HIT"] > hot && asked.Load() > before+100
		})
	}
	var urls purge.Target
	for _, path := range both {
		urls.URLs = append(urls.URLs, url(path))
	}
	for _, target := range []purge.Target{
		{Tags: []string{"a", "b", "c"}},
		{Hosts: []string{host}},
		{Prefixes: []string{url("/a"), url("/b"), url("/c")}},
		{Everything: true},
		urls,
	} {
		goesOn()
		version := origin.publish()
		r := p.purge(target)
		end := p[0].journal.endNow(r.Number)
		p.tell()
		for _, s := range p {
			s.arrivesAfter(end)
		}
		least.Store(int64(version))
	}
	goesOn()
	cancel()
	load.Wait()
	if old.Load() > 0 {
		t.Errorf("%d responses were older than a purge that had ended", old.Load())
	}
	for _, way := range []string{"peer HIT", "peer MISS", "memory HIT"} {
		if ways[way] == 0 {
			t.Errorf("there was no %s, which shows too little: %v", way, ways)
		}
	}
	t.Log(ways)
}
