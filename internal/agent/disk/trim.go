package disk

import (
	"context"
	"errors"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// trim is a part of a probe. trimFiles and trimTime limit one call of trim, so that the call does not slow down the
// probe.
const (
	trimFiles = 500
	trimTime  = 300 * time.Millisecond
)

var errEnough = errors.New("enough")

// trim deletes cache files of a disk that is out of use because it is full. It stops when more bytes are free than the
// parameter want. trim is needed because nginx does not evict files from a disk that is not in its configuration. The
// next request for a deleted file is a MISS. Each call begins at a random folder of the cache. Otherwise each call
// could spend its time on the same empty folders, and never reach the others.
func trim(ctx context.Context, cache string, want int64) error {
	ctx, cancel := context.WithTimeout(ctx, trimTime)
	defer cancel()
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
	missing := want - int64(fs.Bavail)*fs.Bsize //nolint:gosec // no file system has 8 EiB
	t := &trimming{root: root, missing: missing, ended: ctx.Done()}
	top, err := iofs.ReadDir(root.FS(), ".")
	if err != nil || len(top) == 0 {
		return err
	}
	first := rand.IntN(len(top)) //nolint:gosec // any folder will do
	for i := range top {
		name := top[(first+i)%len(top)].Name()
		if err := iofs.WalkDir(root.FS(), name, t.visit); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// trimming is one call of trim.
type trimming struct {
	root *os.Root
	// missing is the number of bytes that trim must still free.
	missing int64
	deleted int
	ended   <-chan struct{} // closed when trim must end
}

func (t *trimming) visit(path string, entry iofs.DirEntry, err error) error {
	select {
	case <-t.ended:
		return errEnough
	default:
	}
	if t.missing < 0 || t.deleted >= trimFiles {
		return errEnough
	}
	if errors.Is(err, os.ErrNotExist) { // old workers delete files too
		return nil
	}
	if err != nil || !entry.Type().IsRegular() {
		return err
	}
	info, err := entry.Info()
	if err == nil {
		err = t.root.Remove(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	t.deleted++
	t.missing -= info.Size() // counted here, because the file system frees the space later
	return nil
}
