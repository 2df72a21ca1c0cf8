// Package crash finds the files of a cache that a crash of the node has cut, before nginx serves them. nginx renames a
// file that it has written, and does not sync it: after a power loss it can be shorter than it was, or have holes.
//
// It imports cachefile and cachekey. A new way for a crash to cut files goes into Check.
package crash

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// Result is what a check has done.
type Result struct {
	// Folders is how many folders were read, Files how many files are in them, Opened how many of those were opened, and
	// Removed how many were removed.
	Folders, Files, Opened, Removed int
}

// Check removes the files of a cache that a crash can have cut, unless they are whole. folder is nginx's
// (proxy_cache_path), which nginx must not have used since the crash. Check ends early, with an error, when the context
// ends or the disk fails. A later call then finds what is left.
//
// It reads the times of the files in the folders that changed last, and opens only files that were written in the last
// two minutes before the last one. The index is no help to find them: after a crash it can be minutes older than the
// files, and a file can have been replaced since. Nor is the time of the boot: the disk can come from another node.
func Check(ctx context.Context, now time.Time, folder string, isUsable func() bool) (Result, error) {
	c := checking{folder: folder, isUsable: isUsable}
	folders, err := c.byTime(ctx)
	if err != nil {
		return c.Result, err
	}
	s := suspects{now: now}
	for _, f := range folders {
		if !s.mayBeIn(f.changed) {
			break
		}
		if err := c.read(ctx, f.path, &s); err != nil {
			return c.Result, err
		}
	}
	for _, path := range s.paths() {
		if err := c.goesOn(ctx); err != nil {
			return c.Result, err
		}
		if err := c.check(path); err != nil {
			return c.Result, err
		}
	}
	return c.Result, nil
}

// checking is one call of Check.
type checking struct {
	Result
	folder   string
	isUsable func() bool
}

var errUnusable = errors.New("the disk has failed")

// goesOn returns an error when the check is to end.
func (c *checking) goesOn(ctx context.Context) error {
	if !c.isUsable() {
		return errUnusable
	}
	return ctx.Err()
}

// leaf is a folder of a cache, and when files last came into it or left it.
type leaf struct {
	path    string
	changed time.Time
}

// byTime returns the leaf folders that exist, the one that changed last first.
func (c *checking) byTime(ctx context.Context) (folders []leaf, err error) {
	for f := range cachekey.Folder(cachekey.Folders) {
		if err := c.goesOn(ctx); err != nil {
			return nil, err
		}
		path := filepath.Join(c.folder, f.Path())
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		folders = append(folders, leaf{path, info.ModTime()})
	}
	slices.SortFunc(folders, func(a, b leaf) int {
		return cmp.Or(b.changed.Compare(a.changed), cmp.Compare(a.path, b.path))
	})
	return folders, nil
}

// read adds the files of a folder to the suspects.
func (c *checking) read(ctx context.Context, folder string, s *suspects) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	c.Folders++
	for _, entry := range entries {
		if err := c.goesOn(ctx); err != nil {
			return err
		}
		if _, ok := cachekey.ParseFile(entry.Name()); !ok {
			continue // the temporary files of killed processes are removed by sweep.Orphans
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		c.Files++
		s.add(filepath.Join(folder, entry.Name()), info.ModTime())
	}
	return nil
}

// check removes a file unless it is whole. A file that cannot be read counts as one that is not. Nothing is written to
// it, because its time would then hide from the next check when the crash was, if this one is interrupted.
func (c *checking) check(path string) error {
	file, err := os.Open(path) //nolint:gosec // nginx's own files
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	c.Opened++
	whole, err := readsWhole(file)
	if err = errors.Join(err, file.Close()); whole && err == nil {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c.Removed++
	return nil
}

func readsWhole(file *os.File) (whole bool, err error) {
	h, err := cachefile.Read(file)
	if err != nil {
		return false, err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	hole, err := file.Seek(0, unix.SEEK_HOLE)
	if err != nil {
		hole = size // the file system does not tell
	}
	return isWhole(h, size, hole), nil
}
