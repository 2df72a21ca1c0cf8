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

// Orphans removes temporary files of nginx that belong to nobody. nginx writes what it fetches to a temporary file
// beside the object's file, and renames it in the end. A process that is killed leaves its temporary files, and nginx
// neither removes nor counts them (max_size).
//
// A process writes only to files that it has created, so a temporary file that was last written before the oldest
// process started belongs to nobody.
type Orphans struct {
	// Store is the disk or the memory tier, and Folders has the folders of its caches (proxy_cache_path).
	Store   string
	Folders []string
	// Processes says when nginx's processes started. ok is false while nginx does not run.
	Processes func() (p reload.Processes, ok bool)
	// IsUsable is true while the disk is healthy.
	IsUsable func() bool
	// Removed is called for each file that was removed.
	Removed func()
	Log     *slog.Logger
	Clock   clock.Clock
}

const (
	// lookEvery is the time between two looks at nginx's processes.
	lookEvery = 2 * time.Second
	// againAfter is the time after which what killed workers have left is removed although the master is the same.
	againAfter = 24 * time.Hour
	// clockError is more than what the times of files and processes differ by because of the kernel's resolution (10 ms).
	clockError = 100 * time.Millisecond
	// foldersRead is how many folders are read in a second.
	foldersRead = 4000
)

// pass is a pass over the folders: when it began, and for which oldest process. The zero value is none.
type pass struct {
	began time.Time
	of    time.Duration
}

// isDue reports whether another pass is due: once after each start of the master when no older process runs any more,
// and once a day if other processes run now.
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

// Remove removes the temporary files that were last written before a time, and returns how many those were.
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

// maxLevels is how many levels of folders a cache has (levels=1:2).
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
