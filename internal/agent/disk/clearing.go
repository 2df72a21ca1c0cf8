package disk

import (
	"context"
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
	// clearBatch is the number of files that are deleted between two rests. A rest lasts as long as the deletion of the
	// batch before the rest.
	clearBatch = 64
	// clearRest is the shortest rest between two batches.
	clearRest = 5 * time.Millisecond
	// clearFailures is the number of failures after which a run ends. A later probe begins another run.
	clearFailures = 16
)

// clearing deletes the files of foreign caches on a disk. Only one run is active at a time, because many concurrent
// deletions would slow the probes down until the disk is taken out of use. A run rests between batches. The next
// agent deletes the files that are left when this agent ends. The files come from the previous owner of the disk, so
// clearing does not trust them. It follows no links, and it moves subfolders up before it empties them, so that
// folders of any depth can be deleted. It is safe for concurrent use.
type clearing struct {
	running atomic.Bool
	// rest waits for a duration, or until the context ends. Tests may replace it.
	rest func(context.Context, time.Duration)
}

func newClearing() *clearing { return &clearing{rest: rest} }

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// start deletes the foreign caches in our folder on a disk, in the background, until the context ends. It does nothing
// if a run is active. If a run waits for a disk when the context ends, the run lasts until the disk answers.
func (c *clearing) start(ctx context.Context, folder string) {
	if !c.running.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer c.running.Store(false)
		root, err := os.OpenRoot(folder)
		if err != nil {
			return // the next probe of the disk reports the error
		}
		defer func() { _ = root.Close() }()
		failed := map[string]bool{}
		for ctx.Err() == nil && len(failed) < clearFailures {
			entry := nextForeign(root, failed)
			if entry == nil {
				return
			}
			if c.remove(ctx, root, entry) != nil {
				failed[entry.Name()] = true
			}
		}
	}()
}

// newForeign returns a new name for a folder or file that is to be deleted.
func newForeign() string { return foreignFolder + "." + rand.Text() }

// nextForeign returns the next entry in our folder that must be deleted; nil if there is none. It skips the entries in
// the map failed.
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

// remove deletes a file, or it deletes a folder in batches. It moves a subfolder that is not empty up one level, so
// that the subfolder stands beside the folder.
func (c *clearing) remove(ctx context.Context, root *os.Root, entry os.DirEntry) error {
	name := entry.Name()
	if !entry.IsDir() {
		return root.Remove(name)
	}
	for ctx.Err() == nil {
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
		c.rest(ctx, max(time.Since(begun), clearRest))
	}
	return ctx.Err()
}

// readBatch reads the first entries of a folder. It returns an error for a symbolic link.
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
