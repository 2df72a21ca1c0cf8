package cachefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Stamp makes nginx treat a file as if the file did not exist, at once and in every worker. nginx reads the header
// for each request, even in a file that it keeps open (open_file_cache). Responses that nginx is already sending from
// the file continue. nginx does not undo a stamp: the stamp stays in the file when nginx renames a temporary file or
// renews a stored response (304). Each removal therefore begins with a stamp. Stamp returns no error if the file no
// longer exists.
//
// Unlike a removal, a stamp keeps nginx's count of the cache's size correct. But until nginx replaces the file,
// requests for the object do not wait for each other (proxy_cache_lock).
func Stamp(path string) error {
	return overwrite(path, atVersion, make([]byte, 8))
}

// Expire makes a stored response stale as of a moment in the past. nginx then asks the origin whether the response is
// still valid. With stale-while-revalidate, nginx serves the response while one request asks the origin. Expire
// changes only files of the known version, and otherwise returns an error ([ErrVersion]). It returns no error if the
// file no longer exists.
func Expire(path string, at time.Time) error {
	file, err := os.Open(path) //nolint:gosec // nginx's own files
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("expire: %w", err)
	}
	_, err = Read(file)
	_ = file.Close()
	if err != nil {
		return err
	}
	moment := make([]byte, 8)
	binary.LittleEndian.PutUint64(moment, uint64(at.Unix())) //nolint:gosec // not before 1970
	return overwrite(path, atValidUntil, moment)
}

// Remove stamps a file and unlinks it. The stamp comes first because a worker may keep the file open for seconds.
// Remove returns no error if the file no longer exists.
func Remove(path string) error {
	if err := Stamp(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}

// overwrite replaces bytes in a file that exists. It does not change the file's length, so a response that is being
// sent is not cut.
func overwrite(path string, at int64, bytes []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0) //nolint:gosec // nginx's own files
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("invalidate: %w", err)
	}
	_, err = file.WriteAt(bytes, at)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("invalidate: %w", err)
	}
	return nil
}
