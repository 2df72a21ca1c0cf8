package index

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// checkpointEvery is how often the index is told that it has everything.
	checkpointEvery = 10 * time.Second
	// checkpointMargin is how much older than the last checkpoint a folder may be and still be rescanned: file systems
	// round the times of changes.
	checkpointMargin = 2 * time.Second
	// waitForEvents is how long the keeper waits for events at a time.
	waitForEvents = 500 * time.Millisecond
)

// Keeper keeps the index of a disk in step with nginx's files.
type Keeper struct {
	Disk
	// Pace limits how many files a second are read that no event was about.
	Pace *rate.Limiter

	complete atomic.Bool
	// watching, for tests, is called when the watch has begun.
	watching func()
	// pending are the folders to be rescanned, with all files that are not older than since.
	pending []Folder
	since   time.Time
	// reads counts the files that were read without an event.
	reads atomic.Int64
}

// Complete is true if the index has all that nginx has stored, but for the last moments.
func (k *Keeper) Complete() bool { return k.complete.Load() }

// Run rescans what has changed since the last checkpoint, and then follows nginx, until the context ends or the index
// fails.
func (k *Keeper) Run(ctx context.Context) error {
	defer k.complete.Store(false)
	if err := k.fallBack(); err != nil { // creates the folders, which a watch needs
		return err
	}
	watch, err := NewWatch(k.Folder)
	if err != nil {
		return err
	}
	defer func() { _ = watch.Close() }()
	if k.watching != nil {
		k.watching()
	}
	if err := k.fallBack(); err != nil { // with what has changed before the watch
		return err
	}
	var checkpoint time.Time
	for ctx.Err() == nil {
		begun := time.Now()
		all, err := k.follow(watch)
		if err != nil {
			return err
		}
		if len(k.pending) > 0 {
			if err := k.rescan(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		k.complete.Store(true)
		if all && begun.Sub(checkpoint) >= checkpointEvery {
			if err := k.Index.SetCheckpoint(begun); err != nil {
				return err
			}
			checkpoint = begun
		}
	}
	return nil
}

// fallBack has everything rescanned that has changed since the last checkpoint.
func (k *Keeper) fallBack() error {
	checkpoint, err := k.Index.Checkpoint()
	if err != nil {
		return err
	}
	if k.since = checkpoint; !checkpoint.IsZero() {
		k.since = checkpoint.Add(-checkpointMargin)
	}
	k.pending, err = k.Stale(k.since)
	return err
}

// follow takes the next events. all is true if they were all that nginx did before the call.
func (k *Keeper) follow(watch *Watch) (all bool, err error) {
	wait := waitForEvents
	if len(k.pending) > 0 {
		wait = 0
	}
	files, all, err := watch.Next(wait)
	if errors.Is(err, ErrOverflow) {
		k.complete.Store(false)
		err = k.fallBack()
	}
	if err != nil {
		return false, err
	}
	changes := make([]Change, 0, len(files))
	for _, f := range files {
		change, err := k.change(f)
		if err != nil {
			return false, err
		}
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return all, nil
	}
	return all, k.Index.Apply(changes)
}

// rescan rescans a folder.
func (k *Keeper) rescan(ctx context.Context) error {
	last := len(k.pending) - 1
	read, err := k.Rescan(k.pending[last], k.since, func() error { return k.Pace.Wait(ctx) })
	k.pending = k.pending[:last]
	k.reads.Add(int64(read))
	return err
}
