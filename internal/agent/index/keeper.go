package index

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

const (
	// checkpointEvery is the time between two checkpoints. flushEvery is the time after which the index is written to the
	// disk together with the last checkpoint.
	checkpointEvery = 10 * time.Second
	flushEvery      = 2 * time.Minute
	// margin is subtracted from a checkpoint before the comparison with the times of files, because file systems round
	// these times.
	margin = 2 * time.Second
	// retryEvery is the time between two attempts to read files that could not be read.
	retryEvery = 2 * time.Second
	// waitForEvents is the longest duration of one wait for events.
	waitForEvents = 500 * time.Millisecond
)

// Keeper keeps the index of a disk up to date with nginx's files.
type Keeper struct {
	Disk
	// Pace limits the number of files that a rescan reads a second. It does not limit the files that events name.
	Pace *rate.Limiter
	// NoWatches is called when the user has no inotify watches left, so that the keeper polls the folders; nil for no
	// call.
	NoWatches func(error)

	complete atomic.Bool
	lost     atomic.Int64
	scanner  scanner
	watch    events
	// pending lists the folders that must be rescanned. scanning is true while a folder is being rescanned.
	pending  []stale
	scanning bool

	mutex sync.Mutex
	// watching is the active watch; nil while there is none. waiting contains the calls of Sync that wait.
	watching events
	waiting  []chan error
	// polled is nil unless the keeper polls the folders. begun is true once the first rescan has ended. outdated
	// contains the files that Reread has added.
	polled   *poll
	begun    bool
	outdated []cachekey.File
}

// ErrIncomplete is the error of [Keeper.Sync] while the index lacks files, because the index is being rebuilt or
// because some files cannot be read from the disk.
var ErrIncomplete = errors.New("the index is not complete")

// Sync waits until the index contains everything that nginx did between the start of the keeper and the call, and
// until [Disk.Stored] was called for these files. The error is [ErrIncomplete] if the index lacks files from before
// the start of the keeper, or if events were lost.
func (k *Keeper) Sync(ctx context.Context) error {
	done := make(chan error, 1)
	k.mutex.Lock()
	if k.watching == nil || k.polled != nil && !k.begun {
		k.lost.Add(1) // the keeper does not see yet what nginx stores now
		k.mutex.Unlock()
		return ErrIncomplete
	}
	k.waiting = append(k.waiting, done)
	k.watching.Wake()
	k.mutex.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// MaxOutdated is the largest number of files that can wait to be read again, see [Keeper.Reread]. Entries of further
// files stay in the index until nginx replaces or evicts these files.
const MaxOutdated = 500_000

// Reread makes the keeper read files again soon. It is needed after changes of headers in files, because such changes
// cause no events. Any goroutine may call it.
func (k *Keeper) Reread(files ...cachekey.File) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.outdated = append(k.outdated, files[:min(len(files), MaxOutdated-len(k.outdated))]...)
}

// takeOutdated returns the next files that Reread has added, and whether more files wait.
func (k *Keeper) takeOutdated() (files []cachekey.File, more bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	n := min(len(k.outdated), batch)
	files, k.outdated = k.outdated[:n], k.outdated[n:]
	return files, len(k.outdated) > 0
}

// take removes and returns the calls of Sync that wait.
func (k *Keeper) take() []chan error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	waiting := k.waiting
	k.waiting = nil
	return waiting
}

// answer ends calls of Sync if all is true: the index then contains everything that nginx did between the start of
// the keeper and the call of take. Otherwise the calls of Sync continue to wait.
func (k *Keeper) answer(waiting []chan error, all bool) {
	if len(waiting) == 0 {
		return
	}
	if !all {
		k.mutex.Lock()
		k.waiting = append(waiting, k.waiting...)
		k.mutex.Unlock()
		return
	}
	var err error
	if !k.complete.Load() || k.scanner.misses() {
		err = ErrIncomplete
	}
	for _, done := range waiting {
		done <- err
	}
}

// end ends the watch, and the calls of Sync that wait.
func (k *Keeper) end() error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, done := range k.waiting {
		done <- ErrIncomplete
	}
	k.waiting, k.watching = nil, nil
	return k.watch.Close()
}

// wakeUp ends the wait for events. A poll ends its wait by itself.
func (k *Keeper) wakeUp() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.watching != nil && k.polled == nil {
		k.watching.Wake()
	}
}

// Complete reports whether the index contains all files that nginx has stored, except the files of the last moments. It
// returns false for some seconds if some files could not be read from the disk.
func (k *Keeper) Complete() bool { return k.complete.Load() }

// Lost returns how often events were lost, or may have been lost, since the keeper was created.
func (k *Keeper) Lost() int64 { return k.lost.Load() }

// Run rescans the folders that have changed since the last checkpoint. It then follows the changes that nginx makes,
// until the context ends, or until the disk or the index fails. The error [ErrGone] means that the cache's folders
// were replaced; the caller can then call Run again.
func (k *Keeper) Run(ctx context.Context) (err error) {
	defer func() { k.complete.Store(false); k.lost.Add(1) }()
	if err := k.begin(ctx); err != nil {
		return err
	}
	return k.run(ctx)
}

// run follows the changes that nginx makes after begin.
func (k *Keeper) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, k.end()) }()
	stop := context.AfterFunc(ctx, k.wakeUp)
	defer stop()
	checkpoint, flush := time.Time{}, k.Index.Clock.Now()
	retried := flush
	for ctx.Err() == nil {
		begun, waiting := k.Index.Clock.Now(), k.take()
		all, err := k.follow(len(waiting) == 0)
		k.answer(waiting, all && err == nil)
		if err != nil {
			return err
		}
		if len(k.pending) > 0 {
			if err := k.scanNext(); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		if k.scanner.misses() && begun.Sub(retried) >= retryEvery {
			retried = begun
			if err := k.scanner.retry(); err != nil {
				return err
			}
		}
		k.hasCaughtUp()
		if !all || begun.Sub(checkpoint) < checkpointEvery {
			continue
		}
		checkpoint = begun
		at := begun
		if k.polled != nil {
			at = k.polled.last
		}
		if err := k.Index.SetCheckpoint(at); err != nil {
			return err
		}
		if begun.Sub(flush) >= flushEvery {
			flush = begun
			if err := k.Index.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanNext rescans the last folder in pending.
func (k *Keeper) scanNext() error {
	last := len(k.pending) - 1
	folder := k.pending[last]
	k.pending = k.pending[:last]
	k.scanning = true
	err := k.scanner.scan(folder)
	k.scanning = false
	if err != nil || len(k.pending) > 0 { // lost events may have added folders during the scan
		return err
	}
	if k.polled != nil && k.begun {
		k.polled.took()
	}
	k.hasCaughtUp()
	return nil
}

// hasCaughtUp records that no folder waits to be rescanned.
func (k *Keeper) hasCaughtUp() {
	k.complete.Store(!k.scanner.misses())
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.begun = true
}

// begin starts to watch the folders, and then lists the folders that changed before the watch began.
func (k *Keeper) begin(ctx context.Context) (err error) {
	k.scanner = scanner{
		Disk: k.Disk, unreadable: map[cachekey.File]int{}, pace: func() error { return k.Pace.Wait(ctx) },
		pause: func() error { _, err := k.follow(false); return err },
	}
	if err := k.makeFolders(); err != nil { // a watch needs all folders
		return err
	}
	if err := k.beginWatch(ctx); err != nil {
		return err
	}
	if k.pending, err = k.stale(); err != nil {
		return errors.Join(err, k.watch.Close())
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.watching = k.watch
	return nil
}

// beginWatch begins to watch the folders, or to poll them if the user has no watches left.
func (k *Keeper) beginWatch(ctx context.Context) error {
	watch, err := NewWatch(k.Folder)
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.polled, k.begun = nil, false
	if err == nil {
		k.watch = watch
		return nil
	}
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EMFILE) {
		return err
	}
	if k.NoWatches != nil {
		k.NoWatches(err)
	}
	k.polled = newPoll(ctx, k.Index.Clock)
	k.watch = k.polled
	return nil
}

// follow takes the next events and updates the index. all is true if the events cover everything that nginx did
// before the call. follow waits for the first event only if mayWait is true, no folder waits for a rescan, and no
// further files wait to be read again.
func (k *Keeper) follow(mayWait bool) (all bool, err error) {
	wait := waitForEvents
	outdated, more := k.takeOutdated()
	if !mayWait || more || len(k.pending) > 0 {
		wait = 0
	}
	var files []cachekey.File
	if k.polled == nil || !k.scanning && len(k.pending) == 0 { // a poll must not interrupt the last poll's rescan
		files, all, err = k.watch.Next(wait)
	}
	if errors.Is(err, ErrOverflow) {
		k.complete.Store(false)
		k.lost.Add(1)
		k.pending, err = k.stale()
	}
	if err != nil {
		return false, err
	}
	files = append(files, outdated...)
	changes := make([]Change, 0, len(files))
	for _, f := range files {
		changes = k.scanner.look(changes, f)
	}
	if len(changes) == 0 {
		return all, nil
	}
	return all, k.Index.Apply(changes)
}
