package purge_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/agent/crash"
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestCrash checks that after a crash of the node, files that may be cut short are removed before their disk counts as
// current. The other files must still be served.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n  cache: {slice: {size: 1Mi}}\n")
	cut, whole, chunked, old := "/a/cut", "/a/whole", "/chunked/new", "/chunked/old"
	s.size = 1_500_000
	s.wants("MISS", 0, cut, whole)
	s.size = 0
	s.wants("MISS", 0, chunked, old)
	s.wants("HIT", 0, cut, whole, old)
	s.end()
	for _, path := range s.cached(cut) {
		info, err := os.Stat(path)
		must(t, err)
		must(t, os.Truncate(path, info.Size()-4096))
	}
	for _, path := range s.cached(old) {
		must(t, os.Chtimes(path, time.Time{}, machine.Now().Add(-3*time.Minute)))
	}
	s.publish()
	for _, disk := range []string{"disk1", "disk2"} {
		s.notes(disk, "another boot")
	}
	s.usable.Store(false)
	s.begin(nil)
	if s.isCurrent() {
		t.Error("the disks are current before they were checked")
	}
	s.usable.Store(true)
	await.True(t, "the disks do not become current", s.isCurrent)
	boot, err := crash.Boot()
	must(t, err)
	for _, disk := range []string{"disk1", "disk2"} {
		if noted, err := os.ReadFile(s.checked(disk)); err != nil || string(noted) != boot {
			t.Errorf("%s: %q is noted (%v), want %q", disk, noted, err, boot)
		}
	}
	// Two slices of the object that was cut short, and one file of the object in chunked encoding, each for two devices.
	if got := s.count(sweep.Cut); got != 6 {
		t.Errorf("%d files were removed, want 6", got)
	}
	s.wants("HIT", 0, whole, old)
	s.size = 1_500_000
	s.wants("MISS", 1, cut)
	s.size = 0
	s.wants("MISS", 1, chunked)

	s.end()
	s.begin(nil) // in the same boot
	await.True(t, "the disks do not become current again", s.isCurrent)
	if got := s.count(sweep.Cut); got != 6 {
		t.Errorf("%d files were removed, and the node was not started again", got-6)
	}
}

// cached returns the files of an object on both disks: its slices and variants.
func (s *site) cached(path string) (files []string) {
	s.t.Helper()
	for _, disk := range []string{"disk1", "disk2"} {
		paths, err := filepath.Glob(s.nginx.Root + layout.CacheDir(disk) + "/*/*/" + strings.Repeat("[0-9a-f]", 32))
		must(s.t, err)
		for _, file := range paths {
			text, err := os.ReadFile(file)
			must(s.t, err)
			h, err := cachefile.Read(bytes.NewReader(text))
			must(s.t, err)
			if cachekey.Parse(h.Key).Object() == url(path) {
				files = append(files, file)
			}
		}
	}
	return files
}

func (s *site) checked(disk string) string {
	return filepath.Dir(s.nginx.Root+layout.CacheDir(disk)) + "/checked"
}

// notes replaces the recorded ID of the boot in which a disk was last checked.
func (s *site) notes(disk, boot string) {
	s.t.Helper()
	must(s.t, os.WriteFile(s.checked(disk), []byte(boot), 0o600))
}

func (s *site) isCurrent() bool { return s.purger.IsCurrent("disk1") && s.purger.IsCurrent("disk2") }

func (s *site) count(reason sweep.Reason) int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.removed[reason]
}
