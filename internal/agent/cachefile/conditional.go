package cachefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Result is the outcome of a conditional change of a file.
type Result int

// The results. Unused means that nginx does not use the file, because the file was stamped or is incomplete.
const (
	Gone Result = iota // there is no file
	Kept               // the file was not changed, because it does not meet the condition
	Unused
	Changed
)

// Condition returns true if a file must be changed. Its arguments are the times ValidUntil and Received of the file's
// [Header].
type Condition func(validUntil, received time.Time) bool

// StampIf stamps a file as [Stamp] does, if the response in the file meets a condition. It reads as little of the
// file as possible, because a purge can match very many files. size is the size of the changed file in bytes; 0 if
// the file was not changed.
func StampIf(path string, is Condition) (found Result, size int64, err error) {
	return change(path, is, atVersion, 0)
}

// ExpireIf expires a file as [Expire] does, if the response in the file meets a condition. It returns the same
// results as StampIf.
func ExpireIf(path string, at time.Time, is Condition) (found Result, size int64, err error) {
	return change(path, is, atValidUntil, at.Unix())
}

// RemoveUnused removes a file that is [Unused]. If nginx has stored another response under the file's name since the
// file became unused, RemoveUnused keeps the new file.
func RemoveUnused(path string) error {
	found, _, err := StampIf(path, func(time.Time, time.Time) bool { return false })
	if err != nil || found != Unused {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}

// change writes a number into the header of a file that meets a condition. It uses system calls instead of package
// os, which costs a third more for each file.
func change(path string, is Condition, at, number int64) (found Result, size int64, err error) {
	file, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) })
	if errors.Is(err, fs.ErrNotExist) {
		return Gone, 0, nil
	} else if err != nil {
		return Kept, 0, fmt.Errorf("invalidate %s: %w", path, err)
	}
	defer func() { _ = unix.Close(file) }() // the written bytes are in the page cache already
	found, size, err = changeOpened(file, is, at, number)
	if err != nil {
		err = fmt.Errorf("invalidate %s: %w", path, err)
	}
	return found, size, err
}

func changeOpened(file int, is Condition, at, number int64) (found Result, size int64, err error) {
	start := make([]byte, atReceived+8)
	n, err := retry(func() (int, error) { return unix.Pread(file, start, 0) })
	if err != nil {
		return Kept, 0, err
	}
	if n < len(start) || binary.LittleEndian.Uint64(start[atVersion:]) != Version {
		return Unused, 0, nil
	}
	moment := func(at int) time.Time {
		return time.Unix(int64(binary.LittleEndian.Uint64(start[at:])), 0) //nolint:gosec // time_t
	}
	if !is(moment(atValidUntil), moment(atReceived)) {
		return Kept, 0, nil
	}
	var info unix.Stat_t
	if err := unix.Fstat(file, &info); err != nil {
		return Kept, 0, err
	}
	text := binary.LittleEndian.AppendUint64(nil, uint64(number)) //nolint:gosec // the bits are the same
	if _, err := retry(func() (int, error) { return unix.Pwrite(file, text, at) }); err != nil {
		return Kept, 0, err
	}
	return Changed, info.Size, nil
}

// retry calls a function again if a signal has interrupted it.
func retry(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
