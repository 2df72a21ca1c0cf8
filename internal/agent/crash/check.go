// Package crash finds the cache files that a crash of the node has cut, before nginx serves them. nginx writes a file
// and renames it, but does not sync it. After a power loss, the file can be shorter than it was, or have holes.
//
// It imports cachefile and cachekey. Code for another way in which a crash cuts files goes into Check.
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

// Result counts what a check has done.
type Result struct {
	// Folders is the number of folders that were read, and Files is the number of cache files in them. Opened is the
	// number of these files that were opened, and Removed is the number of files that were removed.
	Folders, Files, Opened, Removed int
}

// Check removes the cache files that a crash can have cut, unless they are complete. folder is the folder of the
// cache (proxy_cache_path); nginx must not have used it since the crash. Check ends early, with an error, when the
// context ends or the disk fails. A later call then finds the remaining files.
//
// Check reads the times of the files in the folders that changed last. It opens only files that were written at most
// two minutes before the file that was written last. The index does not help to find these files. After a crash, the
// index can be minutes older than the files, and nginx can have replaced a file in these minutes. The time of the boot
// does not help either: the disk can come from another node.
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

// goesOn returns an error if the check must end: the disk has failed, or the context has ended.
func (c *checking) goesOn(ctx context.Context) error {
	if !c.isUsable() {
		return errUnusable
	}
	return ctx.Err()
}

// leaf is a folder that contains cache files. changed is the time at which a file was last added to the folder or
// removed from it.
type leaf struct {
	path    string
	changed time.Time
}

// byTime returns the leaf folders that exist, sorted so that the folder that changed last comes first.
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

// read passes the cache files of a folder to the suspects, which keep those that a crash can have cut.
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

// check removes a file unless it is complete. A file that cannot be read counts as incomplete. check does not write to
// any file, because a write would give the file a new time. If the check were then interrupted, the next check could
// not tell when the crash was.
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
		hole = size // the file system does not report holes
	}
	return isWhole(h, size, hole), nil
}
