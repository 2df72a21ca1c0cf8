package disk

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// clearBatch is how many files are deleted in a row; then the disk has as long as that took for its requests.
	clearBatch = 64
	// clearRest is the shortest rest between two batches.
	clearRest = 5 * time.Millisecond
	// clearFailures is after how many failures a run ends; a later probe begins another.
	clearFailures = 16
)

// clearing deletes what a foreign cache has left on a disk. It runs once at a time, as many deletions at once would slow the
// probes until the disk is taken out of use, and it rests between batches. What is left when the agent ends is deleted by the
// next one. The previous holder of the disk has written what is there, so nothing is followed, and no depth is trusted:
// folders are moved up before they are emptied. It is safe for concurrent use.
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
		failed := map[string]bool{}
		for len(failed) < clearFailures {
			entry := nextForeign(root, failed)
			if entry == nil {
				return
			}
			if c.remove(root, entry) != nil {
				failed[entry.Name()] = true
			}
		}
	}()
}

// newForeign is a name that marks a folder or file as one to be deleted.
func newForeign() string { return foreignFolder + "." + rand.Text() }

// nextForeign is an entry of our folder that waits to be deleted, beside those that failed; nil if there is none.
func nextForeign(root *os.Root, failed map[string]bool) os.DirEntry {
	folder, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	for {
		entries, err := folder.ReadDir(clearBatch)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), foreignFolder) && !failed[e.Name()] {
				return e
			}
		}
		if err != nil || len(entries) == 0 {
			return nil
		}
	}
}

// remove deletes a file, or a folder batch by batch. Folders in it that are not empty are moved beside it.
func (c *clearing) remove(root *os.Root, entry os.DirEntry) error {
	name := entry.Name()
	if !entry.IsDir() {
		return root.Remove(name)
	}
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
			err := root.Remove(inner)
			if e.IsDir() && err != nil && !errors.Is(err, os.ErrNotExist) {
				err = root.Rename(inner, newForeign())
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		c.rest(max(time.Since(begun), clearRest))
	}
}

// readBatch reads the first entries of a folder, which must be one.
func readBatch(root *os.Root, name string) ([]os.DirEntry, error) {
	folder, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
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
