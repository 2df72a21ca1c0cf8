package cachefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Result is what a change on a condition has found.
type Result int

// The results: there is no file; the condition keeps it; nginx does not use it, as it was stamped or ends early; it was
// changed.
const (
	Gone Result = iota
	Kept
	Unused
	Changed
)

// Condition decides by the times of a response, see [Header].
type Condition func(validUntil, received time.Time) bool

// StampIf is [Stamp] for a file whose response meets a condition. It reads no more of the file than it must, because a
// purge can be about very many files. size is that of a file that was changed.
func StampIf(path string, is Condition) (found Result, size int64, err error) {
	return change(path, is, atVersion, 0)
}

// ExpireIf is [Expire] for a file whose response meets a condition, as StampIf.
func ExpireIf(path string, at time.Time, is Condition) (found Result, size int64, err error) {
	return change(path, is, atValidUntil, at.Unix())
}

// change writes a number into the header of a file that meets a condition.
func change(path string, is Condition, at, number int64) (found Result, size int64, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // nginx's own files
	if errors.Is(err, fs.ErrNotExist) {
		return Gone, 0, nil
	} else if err != nil {
		return Kept, 0, fmt.Errorf("invalidate: %w", err)
	}
	defer func() {
		if closed := file.Close(); err == nil && closed != nil {
			err = fmt.Errorf("invalidate: %w", closed)
		}
	}()
	start := make([]byte, atReceived+8)
	if _, err := file.ReadAt(start, 0); errors.Is(err, io.EOF) {
		return Unused, 0, nil
	} else if err != nil {
		return Kept, 0, fmt.Errorf("invalidate: %w", err)
	}
	if binary.LittleEndian.Uint64(start[atVersion:]) != Version {
		return Unused, 0, nil
	}
	moment := func(at int) time.Time {
		return time.Unix(int64(binary.LittleEndian.Uint64(start[at:])), 0) //nolint:gosec // time_t
	}
	if !is(moment(atValidUntil), moment(atReceived)) {
		return Kept, 0, nil
	}
	info, err := file.Stat()
	if err != nil {
		return Kept, 0, fmt.Errorf("invalidate: %w", err)
	}
	text := binary.LittleEndian.AppendUint64(nil, uint64(number)) //nolint:gosec // the bits are the same
	if _, err := file.WriteAt(text, at); err != nil {
		return Kept, 0, fmt.Errorf("invalidate: %w", err)
	}
	return Changed, info.Size(), nil
}
