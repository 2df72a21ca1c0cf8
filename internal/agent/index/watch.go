package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ErrOverflow is the error of [Watch.Next] after which everything must be rescanned: nginx has changed files faster
// than they were read, and the kernel has dropped some events.
var ErrOverflow = errors.New("watch: events were lost")

// Watch sees which files nginx stores and removes (inotify). The usual library for Go cannot leave out the events of
// nginx's writes to temporary files, which are in the same folders.
type Watch struct {
	file    *os.File
	folders map[int32]Folder
	buffer  []byte
}

// mask are the events of a file that is finished, and of one that is removed.
const mask = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ONLYDIR

// NewWatch begins to watch all folders of a cache, which must exist. An error that is ENOSPC means that the user has no
// watches left (fs.inotify.max_user_watches): each cache needs 4,096, and the pods of a node share them.
func NewWatch(cache string) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	w := &Watch{file: os.NewFile(uintptr(fd), "inotify"), folders: map[int32]Folder{}, buffer: make([]byte, 64<<10)}
	for folder := range Folder(Folders) {
		id, err := unix.InotifyAddWatch(fd, filepath.Join(cache, folder.Path()), mask)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("watch %s: %w", folder.Path(), err), w.Close())
		}
		w.folders[int32(id)] = folder //nolint:gosec // the kernel's own size
	}
	return w, nil
}

// Close ends the watch.
func (w *Watch) Close() error { return w.file.Close() }

// Next returns the files that were stored or removed, and waits for the first of them for at most so long. all is true
// if these are all that happened before the call. [ErrOverflow] says that some events are missing, beside those that
// are returned. Only one goroutine may call it.
func (w *Watch) Next(wait time.Duration) (files []File, all bool, err error) {
	if err := w.file.SetReadDeadline(time.Now().Add(max(wait, time.Microsecond))); err != nil {
		return nil, false, fmt.Errorf("watch: %w", err)
	}
	n, err := w.file.Read(w.buffer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, true, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("watch: %w", err)
	}
	overflow := false
	for events := w.buffer[:n]; len(events) >= unix.SizeofInotifyEvent; {
		folder := int32(binary.NativeEndian.Uint32(events)) //nolint:gosec // the kernel's own size
		overflow = overflow || binary.NativeEndian.Uint32(events[4:])&unix.IN_Q_OVERFLOW != 0
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		name := bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00")
		if f, ok := ParseFile(string(name)); ok && f.Folder() == w.folders[folder] {
			files = append(files, f)
		}
		events = events[end:]
	}
	if overflow {
		return files, false, ErrOverflow
	}
	// The kernel returns as many events as fit, so there is no other if another would have fitted.
	return files, n+unix.SizeofInotifyEvent+unix.NAME_MAX+1 <= len(w.buffer), nil
}
