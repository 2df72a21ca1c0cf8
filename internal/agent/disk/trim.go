package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// trimFiles bounds how many files one call of trim deletes, so that it does not take long.
const trimFiles = 500

var errEnough = errors.New("enough")

// trim deletes cache files of a disk that is out of use because it is full, until more than want bytes are free. nginx
// does not evict from a disk that is not in its configuration; a file that is gone is a MISS. The folders are named by
// hashes, so the first that a walk meets are as good as any.
func trim(cache string, want int64) error {
	deleted := 0
	err := filepath.WalkDir(cache, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(cache, &fs); err != nil {
			return err
		}
		if int64(fs.Bavail)*fs.Bsize > want || deleted >= trimFiles { //nolint:gosec // no file system has 8 EiB
			return errEnough
		}
		deleted++
		return os.Remove(path)
	})
	if errors.Is(err, errEnough) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
