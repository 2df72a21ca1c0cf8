package disk

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// clearBatch is how many files are deleted in a row; then the disk has as long as that took for its requests.
	clearBatch = 64
	// clearRest is the shortest rest between two batches.
	clearRest = 5 * time.Millisecond
)

// clearing deletes what a foreign cache has left on a disk. It runs once at a time, as many deletions at once would slow the
// probes until the disk is taken out of use, and it rests between batches. What is left when the agent ends is deleted by the
// next one. It is safe for concurrent use.
type clearing struct {
	running atomic.Bool
	// rest waits; tests may replace it.
	rest func(time.Duration)
}

func newClearing() *clearing { return &clearing{rest: time.Sleep} }

// start deletes the foreign caches in our folder on a disk in the background, unless that is under way.
func (c *clearing) start(folder string) {
	if !c.running.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer c.running.Store(false)
		root, err := os.OpenRoot(folder)
		if err != nil {
			return // the next probe of the disk says why
		}
		defer func() { _ = root.Close() }()
		for name := range foreignCaches(root) {
			if c.remove(root, name) != nil {
				return // a later probe begins again
			}
		}
	}()
}

// foreignCaches are the folders in ours that wait to be deleted.
func foreignCaches(root *os.Root) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		folder, err := root.Open(".")
		if err != nil {
			return
		}
		defer func() { _ = folder.Close() }()
		entries, _ := folder.ReadDir(-1)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), foreignFolder) && !yield(e.Name()) {
				return
			}
		}
	}
}

// remove deletes a folder and what is in it, batch by batch.
func (c *clearing) remove(root *os.Root, name string) error {
	for {
		begun := time.Now()
		entries, err := readBatch(root, name)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return root.Remove(name)
		}
		for _, e := range entries {
			inner := path.Join(name, e.Name())
			if e.IsDir() {
				err = c.remove(root, inner)
			} else {
				err = root.Remove(inner)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		c.rest(max(time.Since(begun), clearRest))
	}
}

// readBatch reads the first entries of a folder.
func readBatch(root *os.Root, name string) ([]os.DirEntry, error) {
	folder, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	entries, err := folder.ReadDir(clearBatch)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return entries, err
}
