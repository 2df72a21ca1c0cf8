package disk

import (
	"errors"
	iofs "io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// trimFiles and trimTime bound what one call of trim does: it is part of a probe, which must not become slow by it.
const (
	trimFiles = 500
	trimTime  = 300 * time.Millisecond
)

var errEnough = errors.New("enough")

// trim deletes cache files of a disk that is out of use because it is full, until more than want bytes are free. nginx
// does not evict from a disk that is not in its configuration; a file that is gone is a MISS. The folders are named by
// hashes, so the first that a walk meets are as good as any.
func trim(cache string, want int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(cache, &fs); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	root, err := os.OpenRoot(cache)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	free := int64(fs.Bavail) * fs.Bsize //nolint:gosec // no file system has 8 EiB
	deleted, begun := 0, time.Now()
	err = iofs.WalkDir(root.FS(), ".", func(path string, entry iofs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if free > want || deleted >= trimFiles || time.Since(begun) > trimTime {
			return errEnough
		}
		info, err := entry.Info()
		if err == nil {
			err = root.Remove(path)
		}
		if errors.Is(err, os.ErrNotExist) { // old workers delete as well
			return nil
		}
		deleted++
		free += info.Size() // counted, as the file system frees the space some time after the file
		return err
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
