package sweep

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// Orphans removes temporary files of nginx that belong to no running process. nginx writes a fetched response to a
// temporary file beside the object's file, and renames the temporary file in the end. A killed process leaves its
// temporary files behind. nginx neither removes these files nor counts them towards max_size.
//
// A process writes only to files that it has created, so a temporary file that was last written before the oldest
// process started belongs to no running process.
type Orphans struct {
	// Store is the name of the disk or the memory tier, and Folders lists the folders of its caches (proxy_cache_path).
	Store   string
	Folders []string
	// Processes returns the start times of nginx's processes. ok is false while nginx does not run.
	Processes func() (p reload.Processes, ok bool)
	// IsUsable returns true while the disk is healthy.
	IsUsable func() bool
	// Removed is called for each file that was removed.
	Removed func()
	Log     *slog.Logger
	Clock   clock.Clock
}

const (
	// lookEvery is the time between two checks of nginx's processes.
	lookEvery = 2 * time.Second
	// againAfter is the time after which the files of killed workers are removed even if the master has not restarted.
	againAfter = 24 * time.Hour
	// clockError is larger than any difference between the times of files and of processes that comes from the kernel's
	// resolution (10 ms).
	clockError = 100 * time.Millisecond
	// foldersRead is the largest number of folders that are read in a second.
	foldersRead = 4000
)

// pass is the last complete pass over the folders: the time at which it began, and the start of the oldest process at
// that time, as [reload.Processes] gives it. The zero value means that there was no pass.
type pass struct {
	began time.Time
	of    time.Duration
}

// isDue reports whether another pass is due. One pass is due after each start of the master, when no older process
// runs any more. Later, a pass is due once a day if the oldest process is newer than at the last pass.
func (p pass) isDue(now time.Time, nginx reload.Processes) bool {
	if nginx.Oldest <= p.of {
		return false
	}
	isFirst := nginx.Oldest >= nginx.Master && p.of < nginx.Master
	return isFirst || !p.began.IsZero() && now.Sub(p.began) >= againAfter
}

// Run removes orphans until the context ends. A pass that fails is tried again.
func (o *Orphans) Run(ctx context.Context) {
	for last := (pass{}); ctx.Err() == nil; {
		if nginx, ok := o.Processes(); ok && last.isDue(o.Clock.Now(), nginx) {
			began := o.Clock.Now()
			removed, err := o.Remove(ctx, nginx.Boot.Add(nginx.Oldest))
			if removed > 0 {
				o.Log.Info("temporary files of processes of nginx that were killed are removed",
					"store", o.Store, "files", removed)
			}
			if err == nil {
				last = pass{began, nginx.Oldest}
			} else if ctx.Err() == nil {
				o.Log.Warn("removing temporary files that belong to nobody", "store", o.Store, "error", err)
			}
		}
		if sleep(ctx, o.Clock, lookEvery) != nil {
			return
		}
	}
}

// Remove removes the temporary files that were last written before a time, and returns the number of removed files.
func (o *Orphans) Remove(ctx context.Context, before time.Time) (removed int, err error) {
	w := walk{Orphans: o, before: before.Add(-clockError), pace: rate.NewLimiter(foldersRead, foldersRead)}
	for _, folder := range o.Folders {
		if err := w.folder(ctx, folder, 0); err != nil {
			return w.removed, err
		}
	}
	return w.removed, nil
}

// walk is one call of Remove.
type walk struct {
	*Orphans
	before  time.Time
	pace    *rate.Limiter
	removed int
}

var (
	level     = regexp.MustCompile(`^[0-9a-f]{1,2}$`)
	errFailed = errors.New("the disk has failed")
)

// maxLevels is the number of folder levels in a cache (levels=1:2).
const maxLevels = 2

func (w *walk) folder(ctx context.Context, path string, depth int) error {
	if err := w.pace.Wait(ctx); err != nil {
		return err
	}
	if !w.IsUsable() {
		return errFailed
	}
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nginx has not created it yet
	} else if err != nil {
		return err
	}
	for _, entry := range entries {
		below := filepath.Join(path, entry.Name())
		switch {
		case entry.IsDir() && depth < maxLevels && level.MatchString(entry.Name()):
			err = w.folder(ctx, below, depth+1)
		case entry.Type().IsRegular() && cachekey.IsTemporary(entry.Name()):
			err = w.file(below, entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) file(path string, entry os.DirEntry) error {
	info, err := entry.Info()
	if err == nil && info.ModTime().Before(w.before) {
		if err = os.Remove(path); err == nil {
			w.removed++
			w.Removed()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
