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
	// margin is subtracted from a checkpoint before it is compared with times of files, which file systems round.
	margin = 2 * time.Second
	// retryEvery is the time between two tries to read files that could not be read.
	retryEvery = 2 * time.Second
	// waitForEvents is how long the keeper waits for events at a time.
	waitForEvents = 500 * time.Millisecond
)

// Keeper keeps the index of a disk in step with nginx's files.
type Keeper struct {
	Disk
	// Pace limits how many files a second are looked at that no event was about.
	Pace *rate.Limiter
	// NoWatches is called when the user has no inotify watches left, so that folders are polled; nil for nothing.
	NoWatches func(error)

	complete atomic.Bool
	lost     atomic.Int64
	scanner  scanner
	watch    events
	// pending are the folders to be rescanned, and scanning is true while one is.
	pending  []stale
	scanning bool

	mutex sync.Mutex
	// watching is the watch while there is one. waiting are calls of Sync that wait. outdated are files of Reread.
	watching events
	waiting  []chan error
	// polled is nil unless folders are polled, and begun is true once the index was complete.
	polled   *poll
	begun    bool
	outdated []cachekey.File
}

// ErrIncomplete is the error of [Keeper.Sync] while the index lacks files, because it is being rebuilt or because the
// disk cannot read some of them.
var ErrIncomplete = errors.New("the index is not complete")

// Sync waits until everything that nginx did since the keeper began, and before the call, is in the index, and has
// passed [Disk.Stored]. The error is [ErrIncomplete] if the index lacks files from before, or events were lost.
func (k *Keeper) Sync(ctx context.Context) error {
	done := make(chan error, 1)
	k.mutex.Lock()
	if k.watching == nil || k.polled != nil && !k.begun {
		k.lost.Add(1) // what nginx stores now is not looked at yet
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

// MaxOutdated is how many files wait at most for [Keeper.Reread]. What the index has of others stays until nginx
// replaces or evicts them.
const MaxOutdated = 500_000

// Reread makes the keeper read files again soon. That is for changes of headers, which are no events. Any goroutine may
// call it.
func (k *Keeper) Reread(files ...cachekey.File) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.outdated = append(k.outdated, files[:min(len(files), MaxOutdated-len(k.outdated))]...)
}

// takeOutdated returns the next files of Reread, and whether there are more.
func (k *Keeper) takeOutdated() (files []cachekey.File, more bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	n := min(len(k.outdated), batch)
	files, k.outdated = k.outdated[:n], k.outdated[n:]
	return files, len(k.outdated) > 0
}

// take returns the calls of Sync that have begun.
func (k *Keeper) take() []chan error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	waiting := k.waiting
	k.waiting = nil
	return waiting
}

// answer ends calls of Sync. all is true if the index has everything that nginx did between the beginning and take;
// otherwise they go on waiting.
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

// wakeUp ends the wait for events. A poll ends by itself.
func (k *Keeper) wakeUp() {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.watching != nil && k.polled == nil {
		k.watching.Wake()
	}
}

// Complete returns true if the index has all that nginx has stored, but for the last moments. It is false for some
// seconds if the disk could not read some files.
func (k *Keeper) Complete() bool { return k.complete.Load() }

// Lost returns how often some events were lost since the keeper began to run.
func (k *Keeper) Lost() int64 { return k.lost.Load() }

// Run rescans what has changed since the last checkpoint, and then follows nginx, until the context ends or the disk or
// the index fails. [ErrGone] says that the cache's folders were replaced: it can be run again.
func (k *Keeper) Run(ctx context.Context) (err error) {
	defer func() { k.complete.Store(false); k.lost.Add(1) }()
	if err := k.begin(ctx); err != nil {
		return err
	}
	return k.run(ctx)
}

// run follows nginx after begin.
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

// scanNext rescans the last of the folders that wait for it.
func (k *Keeper) scanNext() error {
	last := len(k.pending) - 1
	folder := k.pending[last]
	k.pending = k.pending[:last]
	k.scanning = true
	err := k.scanner.scan(folder)
	k.scanning = false
	if err != nil || len(k.pending) > 0 { // events that were lost meanwhile can have added folders
		return err
	}
	if k.polled != nil && k.begun {
		k.polled.took()
	}
	k.hasCaughtUp()
	return nil
}

// hasCaughtUp notes that no folder waits to be rescanned.
func (k *Keeper) hasCaughtUp() {
	k.complete.Store(!k.scanner.misses())
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.begun = true
}

// begin begins to watch, and finds out which folders have changed before.
func (k *Keeper) begin(ctx context.Context) (err error) {
	k.scanner = scanner{
		Disk: k.Disk, unreadable: map[cachekey.File]int{}, pace: func() error { return k.Pace.Wait(ctx) },
		pause: func() error { _, err := k.follow(false); return err },
	}
	if err := k.makeFolders(); err != nil { // which a watch needs
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

// follow takes the next events. all is true if they were all that nginx did before the call. It waits for the first of
// them if mayWait is true and no folder is to be rescanned.
func (k *Keeper) follow(mayWait bool) (all bool, err error) {
	wait := waitForEvents
	outdated, more := k.takeOutdated()
	if !mayWait || more || len(k.pending) > 0 {
		wait = 0
	}
	var files []cachekey.File
	if k.polled == nil || !k.scanning && len(k.pending) == 0 { // a look is not interrupted by the next
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
