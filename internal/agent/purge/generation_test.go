package purge_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cachenode/cachenode-operator/internal/agent/purge"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/objects"
	journal "github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/await"
)

// disks are the names of a site's disks.
var disks = []string{"disk1", "disk2"}

// takes reloads nginx with the generations that the purger requires, as the agent does.
func (s *site) takes() {
	s.t.Helper()
	generations := s.purger.Generations()
	s.facts.Generations = generations
	config := s.render()
	s.nginx.Configure(config.Text, disks...)
	must(s.t, syscall.Kill(s.nginx.Processes()[0], syscall.SIGHUP))
	await.True(s.t, "nginx does not take the configuration", func() bool {
		for range 5 {
			s.client.CloseIdleConnections() // idle connections lead to old workers
			response, err := s.client.Get("http://127.0.0.1:8081/version")
			must(s.t, err)
			text, err := io.ReadAll(response.Body)
			must(s.t, err)
			must(s.t, response.Body.Close())
			if response.StatusCode != http.StatusOK || string(text) != config.Version {
				return false
			}
		}
		return true
	})
	s.client.CloseIdleConnections()
	inUse := slices.DeleteFunc(slices.Clone(disks), func(d string) bool { return slices.Contains(s.facts.Failed, d) })
	s.purger.SetInUse(inUse, generations)
}

// restart starts a new purger while nginx uses the disks, as a restarted agent does. prepare changes the new purger.
// fake is the clock that prepare sets; nil if the purger uses the machine's clock.
func (s *site) restart(fake *clocktesting.FakeClock, prepare func(*purge.Purger)) {
	s.t.Helper()
	s.usable.Store(false)
	s.before = prepare
	s.begin(&s.journal.Journal)
	s.purger.SetInUse(disks, nil)
	if s.purger.IsCurrent("disk1") || s.purger.IsCurrent("disk2") {
		s.t.Error("nginx may use disks whose generation is not known")
	}
	if fake == nil {
		s.usable.Store(true)
		return
	}
	await.True(s.t, "the purger and its disks do not wait", func() bool { return fake.Waiters() == 1+len(disks) })
	s.usable.Store(true)
	fake.Step(time.Second)
}

// TestOlderThanTheJournal checks a disk that has missed purges which the journal no longer contains. Nothing must be
// served from this disk. Objects that the disk stores after that must obey purges, even after a restart of the agent.
func TestOlderThanTheJournal(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	s.wants("MISS", 0, both...)
	s.end()
	s.publish()
	r := s.journal.Add(machine.Now(), journal.Rule{Target: journal.Target{Tags: []string{"a"}}})
	s.journal.Seal(machine.Now(), r.Number, machine.Now())
	if !s.journal.Compact(machine.Now().Add(time.Hour), 1<<20, s.journal.Head) || len(s.journal.Rules) != 0 {
		t.Fatal("the journal was not compacted")
	}
	s.restart(nil, nil)
	await.True(t, "the disks have no other generation", func() bool { return len(s.purger.Generations()) == 2 })
	if done := s.purger.Done(0); done.Applied != 0 {
		t.Errorf("before nginx has taken the generations, %d counts as applied", done.Applied)
	}
	s.takes()
	s.applied()
	if c := s.copyOf(url("/b/1"), 0); c.Bytes > 0 {
		t.Errorf("an object of another generation: %+v", c)
	}
	s.wants("MISS", 1, "/a/1", "/b/1", "/b/2")
	s.wants("HIT", 1, "/a/1", "/b/1", "/b/2")
	await.True(t, "an object of the disk's generation is not found", func() bool {
		return s.copyOf(url("/b/1"), 0).Bytes > 0
	})
	s.publish()
	s.purge(journal.Target{Tags: []string{"a"}}, false)
	s.wants("MISS", 2, "/a/1")
	s.publish()
	s.purge(journal.Target{URLs: []string{url("/a/1")}}, false)
	s.wants("MISS", 3, "/a/1")
	s.wants("HIT", 1, "/b/1")
	s.keeps()

	before := s.purger.Generations()
	s.end()
	s.restart(nil, nil)
	await.True(t, "the disks are not current", func() bool {
		return s.purger.IsCurrent("disk1") && s.purger.IsCurrent("disk2")
	})
	if diff := cmp.Diff(before, s.purger.Generations()); diff != "" {
		t.Errorf("the generations of another agent (-want +got):\n%s", diff)
	}
	s.takes()
	s.purge(journal.Target{Tags: []string{"none"}}, false) // after this purge, the indexes are complete
	n := 0
	for _, store := range s.list(t, objects.Query{Target: journal.Target{Everything: true}, Most: 100}) {
		n += len(store.Objects)
	}
	if n != 2 { // the third object matches a purge without an end
		t.Errorf("%d objects are listed, want the two of the new generation", n)
	}
}

// TestHidden checks a purge that an incomplete index cannot answer. The purge must stay pending, and the disk's objects
// must be hidden. Purges must also match the objects that are stored meanwhile. When the index is complete, the objects
// that no purge matches must be served again. The test also checks that nothing is hidden without SetHides(true).
func TestHidden(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	paths := []string{"/a/1", "/a/2", "/a/3", "/a/4", "/b/1", "/b/2", "/b/3", "/b/4", "/c/1", "/c/2", "/d/1", "/d/2"}
	s.wants("MISS", 0, paths...)
	s.purge(journal.Target{Tags: []string{"none"}}, false)
	s.keeps()
	kept := s.journal.Head
	s.end()
	s.losesIndexes()
	readable := s.unreadable(paths[:4]...)
	fake := clocktesting.NewFakeClock(machine.Now())
	s.restart(fake, func(p *purge.Purger) { p.Clock = fake })
	s.publish()
	s.journal.Add(machine.Now(), journal.Rule{Target: journal.Target{Tags: []string{"a"}}})
	s.tell()
	const rebuilt = "the index is being rebuilt"
	await.True(t, "no store says that its index is being rebuilt", func() bool {
		return s.purger.Reason("disk1") == rebuilt && s.purger.Reason("disk2") == rebuilt
	})
	// This step is much longer than a purge waits. The keeper tries once more to read the files, and then waits for the
	// next step of the clock.
	fake.Step(time.Hour)
	for _, path := range []string{"/d/1", "/d/2"} { // needs no index, so it shows that the stores have done a step
		r := s.journal.Add(machine.Now(), journal.Rule{Target: journal.Target{URLs: []string{url(path)}}})
		s.tell()
		await.True(t, "the stores do nothing", func() bool { return s.files(r) == 2 })
	}
	if diff := cmp.Diff(map[string]int64{}, s.purger.Generations()); diff != "" {
		t.Errorf("generations although nothing is to be hidden (-want +got):\n%s", diff)
	}
	s.wants("HIT", 0, "/c/1", "/c/2")
	s.purger.SetHides(true)
	await.True(t, "nothing is hidden", func() bool { return len(s.purger.Generations()) == 2 })
	for _, disk := range disks { // a restarted agent must still apply the purge
		note, place := s.note(disk), fmt.Sprintf(`"applied":%d,`, kept)
		if !strings.Contains(note, place) || !strings.Contains(note, `"cover":`) {
			t.Errorf("%s notes %s, want the place %d and a cover", disk, note, kept)
		}
	}
	s.takes()
	s.wants("MISS", 1, paths[:10]...)
	s.wants("HIT", 1, paths[4:10]...)
	await.True(t, "no store says what it waits for", func() bool {
		if s.purger.Done(0).Applied >= s.journal.Head {
			t.Error("the purge counts as applied")
		}
		return strings.Contains(s.purger.Reason("disk1"), "is not served until then")
	})
	onlyNew := []string{"/e/1", "/e/2", "/e/3", "/e/4"}
	s.wants("MISS", 1, onlyNew...)
	s.publish()
	second := s.journal.Add(machine.Now(), journal.Rule{Target: journal.Target{Tags: []string{"e"}}})
	s.tell()
	await.True(t, "the second purge has no effect", func() bool { return s.files(second) == 8 }) // two devices
	s.wants("MISS", 2, onlyNew...)
	s.wants("HIT", 1, "/b/1", "/c/1", "/c/2")
	s.journal.Add(machine.Now(), journal.Rule{Target: journal.Target{Tags: []string{"b"}}})
	s.tell()

	s.end()
	readable()
	s.restart(nil, func(p *purge.Purger) { p.SetHides(true) })
	s.applied()
	await.True(t, "something stays hidden", func() bool { return len(s.purger.Generations()) == 0 })
	s.takes()
	s.wants("HIT", 0, "/c/1", "/c/2")
	s.wants("MISS", 2, "/a/1", "/b/1")
}

// losesIndexes removes the indexes of the disks.
func (s *site) losesIndexes() {
	s.t.Helper()
	for _, disk := range disks {
		indexes, err := filepath.Glob(s.nginx.Root + filepath.Dir(layout.CacheDir(disk)) + "/index-*")
		if must(s.t, err); len(indexes) != 1 {
			s.t.Fatalf("%s has the indexes %v", disk, indexes)
		}
		must(s.t, os.RemoveAll(indexes[0]))
	}
}

// unreadable makes the files of objects unreadable, so that no index is complete, until the returned function is
// called.
func (s *site) unreadable(paths ...string) (readable func()) {
	s.t.Helper()
	moved, caches := map[string]string{}, map[string]bool{}
	for _, path := range paths {
		for _, file := range s.stored(path) {
			cache := filepath.Dir(filepath.Dir(filepath.Dir(file)))
			moved[file], caches[cache] = filepath.Join(filepath.Dir(cache), filepath.Base(file)), true
		}
	}
	for file, whole := range moved {
		must(s.t, os.Rename(file, whole))
		must(s.t, os.Symlink(file, file)) // a link to itself: an error, as from a failed disk
	}
	if len(caches) != len(disks) {
		s.t.Fatalf("%v are on %d disks", paths, len(caches))
	}
	return func() {
		for file, whole := range moved {
			must(s.t, os.Rename(whole, file))
		}
	}
}

// TestHiddenWithoutJournal checks disks that have obeyed a journal, in a pod that has no journal. After a while, the
// disks begin empty. When the journal arrives, the disks serve their old objects again.
func TestHiddenWithoutJournal(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	s.wants("MISS", 0, both...)
	s.purge(journal.Target{URLs: []string{url("/none")}}, false)
	s.keeps()
	s.end()
	must(t, os.Remove(s.nginx.Root+layout.PurgesCopy))
	fake := clocktesting.NewFakeClock(machine.Now())
	s.before = func(p *purge.Purger) {
		p.Clock = fake
		p.SetHides(true)
	}
	s.begin(nil)
	await.True(t, "the disks do not wait for the journal", func() bool {
		return s.purger.Reason("disk1") == awaited && s.purger.Reason("disk2") == awaited
	})
	fake.Step(time.Minute - time.Second)
	// The purger, the disks and the sweepers of the disks wait.
	await.True(t, "they do not wait", func() bool { return fake.Waiters() == 1+2*len(disks) })
	if n := len(s.purger.Generations()); n != 0 {
		t.Fatalf("%d disks are hidden before a minute is over", n)
	}
	await.True(t, "the disks do not become current", func() bool {
		fake.Step(10 * time.Second)
		return s.purger.IsCurrent("disk1") && s.purger.IsCurrent("disk2")
	})
	if n := len(s.purger.Generations()); n != 2 {
		t.Fatalf("%d disks begin empty, want 2", n)
	}
	s.takes()
	s.publish()
	s.wants("MISS", 1, both...)
	s.wants("HIT", 1, both...)
	s.sent = 0
	s.send()
	await.True(t, "something stays hidden", func() bool { return len(s.purger.Generations()) == 0 })
	s.takes()
	s.wants("HIT", 0, both...)
}
