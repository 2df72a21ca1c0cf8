package index

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/time/rate"

	"github.com/cachenode/cachenode-operator/test/await"
)

// TestSync checks that after Sync, the index contains the files that nginx stored before the call. It also checks that
// Disk.Stored was called for these files, and that Disk.Stored can remove a file.
func TestSync(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	var seen []string
	s.disk.Stored = func(e Entry) (bool, error) {
		seen = append(seen, e.Key)
		return e.Key != "http://www.example.com/b/1", nil
	}
	k := &Keeper{Disk: s.disk, Pace: rate.NewLimiter(rate.Inf, 1)}
	if err := k.Sync(t.Context()); !errors.Is(err, ErrIncomplete) {
		t.Errorf("a keeper that does not run: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- k.Run(t.Context()) }()
	await.True(t, "the index is not complete", k.Complete)
	for range 5 {
		s.get(t, "phone", "/a/1", "/b/1", "/a/2")
		await.Until(t, func() string { // nginx renames a file a moment after it has sent the response
			must(t, k.Sync(t.Context()))
			if a, b := len(names(t, s.disk.Index.WithPrefix("http://www.example.com/a/"))),
				len(names(t, s.disk.Index.WithKey("http://www.example.com/b/1"))); a != 2 || b != 0 {
				return fmt.Sprintf("the index has %d files below /a and %d of /b/1", a, b)
			}
			return ""
		})
	}
	if len(seen) < 3 {
		t.Errorf("%q were seen", seen)
	}
}

// TestSyncWithErrors checks that Sync fails as long as Disk.Stored fails for a file.
func TestSyncWithErrors(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	var fails atomic.Bool
	fails.Store(true)
	s.disk.Stored = func(Entry) (bool, error) {
		if fails.Load() {
			return false, errors.New("the disk does not answer")
		}
		return true, nil
	}
	k := &Keeper{Disk: s.disk, Pace: rate.NewLimiter(rate.Inf, 1)}
	must(t, k.begin(t.Context()))
	k.pending = nil // the cache is empty
	k.complete.Store(true)
	s.get(t, "phone", "/a/1")
	s.nginx.Cached("http://www.example.com/a/1", "disk1") // waits until nginx has stored it
	synced := make(chan error, 1)
	go func() { synced <- k.Sync(t.Context()) }()
	await.True(t, "Sync does not wait", func() bool { // the keeper must see the file and answer in one step
		k.mutex.Lock()
		defer k.mutex.Unlock()
		return len(k.waiting) > 0
	})
	go func() { _ = k.run(t.Context()) }()
	if err := <-synced; !errors.Is(err, ErrIncomplete) {
		t.Errorf("with a file that was not judged: %v", err)
	}
	fails.Store(false)
	await.Until(t, func() string {
		if err := k.Sync(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
	if n := len(names(t, s.disk.Index.WithTag("a"))); n != 1 {
		t.Errorf("the index has %d files, want 1", n)
	}
}
