package disk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestClearing checks that only one run deletes a foreign cache, even if the disk is probed often, and that the run
// rests. It also checks that the next agent deletes what is left when an agent ends.
func TestClearing(t *testing.T) {
	p := prober(t)
	folder := filepath.Join(p.Dir, layout.OwnFolder)
	expect(t, p, "")
	for i := range 300 {
		dir := filepath.Join(folder, cacheFolder, fmt.Sprintf("%x", i%16), fmt.Sprintf("%02x", i%32))
		must(t, os.MkdirAll(dir, 0o750))
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("x"), 0o600))
	}
	outside := filepath.Join(p.Dir, "outside")
	must(t, os.WriteFile(outside, []byte("x"), 0o600))
	must(t, os.Symlink(p.Dir, filepath.Join(folder, cacheFolder, "link")))

	heir := again(p)
	heir.Owner.Name, heir.Empty = "heir", true
	var deleting, rests atomic.Int32
	resume := make(chan struct{})
	heir.clearing = &clearing{rest: func(context.Context, time.Duration) {
		deleting.Add(1)
		defer deleting.Add(-1)
		rests.Add(1)
		<-resume
	}}
	for range 5 * markEvery { // the mark is checked five times
		expect(t, heir, "")
	}
	if _, err := os.Stat(filepath.Join(folder, cacheFolder)); !os.IsNotExist(err) {
		t.Errorf("the foreign cache is where nginx finds it: %v", err)
	}
	await.True(t, "nothing is deleted", func() bool { return deleting.Load() == 1 })
	expect(t, heir, "")
	if n := deleting.Load(); n != 1 {
		t.Errorf("%d deletions at once, want 1", n)
	}
	left := func() []string {
		found, err := filepath.Glob(filepath.Join(folder, foreignFolder+"*"))
		must(t, err)
		return found
	}
	if len(left()) == 0 {
		t.Fatalf("there are %v, want what is being deleted", left())
	}

	// The agent ends in the middle: the next one continues.
	expect(t, again(heir), "")
	await.True(t, "something is left", func() bool { return len(left()) == 0 })
	close(resume)
	await.True(t, "the first run goes on", func() bool { return !heir.clearing.running.Load() })
	if rests.Load() == 0 {
		t.Error("there was no rest")
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("what a link leads to: %v", err)
	}
}

// TestClearingEnds checks that a run ends with its context.
func TestClearingEnds(t *testing.T) {
	folder := t.TempDir()
	foreign := filepath.Join(folder, newForeign())
	must(t, os.Mkdir(foreign, 0o750))
	for i := range 2 * clearBatch {
		must(t, os.WriteFile(filepath.Join(foreign, fmt.Sprint(i)), nil, 0o600))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &clearing{rest: func(context.Context, time.Duration) { cancel() }}
	c.start(ctx, folder)
	await.True(t, "the run goes on", func() bool { return !c.running.Load() })
	left, err := os.ReadDir(foreign)
	if must(t, err); len(left) != clearBatch {
		t.Errorf("%d files are left, want %d: one batch was deleted", len(left), clearBatch)
	}
}

// TestClearingTraps checks that the deletion copes with traps that the previous owner of a disk may have left.
func TestClearingTraps(t *testing.T) {
	p := prober(t)
	expect(t, p, "")
	folder := filepath.Join(p.Dir, layout.OwnFolder)
	own := filepath.Join(folder, cacheFolder, "a", "own")
	must(t, os.MkdirAll(filepath.Dir(own), 0o750))
	must(t, os.WriteFile(own, []byte("own"), 0o600))
	foreign := func(name string) string { return filepath.Join(folder, foreignFolder+"."+name) }
	must(t, os.Symlink(".", foreign("here")))
	must(t, os.Symlink(cacheFolder, foreign("cache")))
	must(t, unix.Mkfifo(foreign("pipe"), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, foreignFolder), []byte("a file"), 0o600))
	must(t, os.Mkdir(foreign("full"), 0o750))
	must(t, unix.Mkfifo(filepath.Join(foreign("full"), "pipe"), 0o600))
	must(t, os.Symlink("..", filepath.Join(foreign("full"), "up")))
	deep, err := os.OpenRoot(folder) // deeper than a path can name
	must(t, err)
	name := foreignFolder + ".deep"
	for range 400 {
		must(t, deep.Mkdir(name, 0o750))
		next, err := deep.OpenRoot(name)
		must(t, err)
		must(t, deep.Close())
		deep, name = next, strings.Repeat("d", 200)
	}
	must(t, deep.Close())

	for range 2 * markEvery {
		expect(t, p, "")
	}
	await.True(t, "something is left", func() bool {
		left, err := filepath.Glob(filepath.Join(folder, foreignFolder+"*"))
		must(t, err)
		return len(left) == 0
	})
	for _, path := range []string{own, filepath.Join(folder, ownerFile)} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("what is one's own: %v", err)
		}
	}
}
