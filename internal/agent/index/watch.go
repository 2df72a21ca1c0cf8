package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// ErrOverflow is the error of [Watch.Next] after which everything must be rescanned: nginx has changed files faster
// than they were read, and the kernel has dropped some events.
var ErrOverflow = errors.New("watch: events were lost")

// ErrGone is the error of [Watch.Next] when a folder that is watched was removed or renamed, or its disk unmounted.
var ErrGone = errors.New("watch: a folder is gone")

// events are where a keeper learns what nginx does: a [Watch], or a poll.
type events interface {
	Next(wait time.Duration) (files []cachekey.File, all bool, err error)
	Wake()
	Close() error
}

// Watch sees which files nginx stores and removes (inotify). The usual library for Go cannot leave out the events of
// nginx's writes to temporary files, which are in the same folders. Only one goroutine may use it.
type Watch struct {
	fd int
	// wake is an event that ends a wait.
	wake    int
	folders map[int32]cachekey.Folder
	buffer  []byte
}

// mask are the events of a file that is finished, and of one that is removed.
const mask = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | gone | unix.IN_ONLYDIR

// gone are the events of a folder itself. The kernel sends the last two in any case.
const gone = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_IGNORED | unix.IN_UNMOUNT

// NewWatch begins to watch all folders of a cache, which must exist. An error that is ENOSPC means that the user has no
// watches left (fs.inotify.max_user_watches): each cache needs 4,097, and the pods of a node share them.
func NewWatch(cache string) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch: %w", err), unix.Close(fd))
	}
	w := &Watch{fd: fd, wake: wake, folders: map[int32]cachekey.Folder{}, buffer: make([]byte, 64<<10)}
	if _, err := unix.InotifyAddWatch(fd, cache, gone&^(unix.IN_IGNORED|unix.IN_UNMOUNT)); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %s: %w", cache, err), w.Close())
	}
	for folder := range cachekey.Folder(cachekey.Folders) {
		id, err := unix.InotifyAddWatch(fd, filepath.Join(cache, folder.Path()), mask&^(unix.IN_IGNORED|unix.IN_UNMOUNT))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("watch %s: %w", folder.Path(), err), w.Close())
		}
		w.folders[int32(id)] = folder //nolint:gosec // the kernel's own size
	}
	return w, nil
}

// Close ends the watch.
func (w *Watch) Close() error { return errors.Join(unix.Close(w.fd), unix.Close(w.wake)) }

// Wake ends the wait of [Watch.Next], or of the next call. Unlike the other functions, any goroutine may call it before
// Close.
func (w *Watch) Wake() {
	_, _ = unix.Write(w.wake, binary.NativeEndian.AppendUint64(nil, 1)) // it fails only if Next is yet to return
}

// Next returns the files that were stored or removed. It waits for the first of them, for wait at most. all is true
// if these are all that happened before the call. [ErrOverflow] says that some events are missing, beside those that
// are returned.
func (w *Watch) Next(wait time.Duration) (files []cachekey.File, all bool, err error) {
	waits := []unix.PollFd{
		{Fd: int32(w.fd), Events: unix.POLLIN},   //nolint:gosec // a file descriptor
		{Fd: int32(w.wake), Events: unix.POLLIN}, //nolint:gosec // a file descriptor
	}
	if _, err := unix.Poll(waits, int(wait.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
		return nil, false, fmt.Errorf("watch: %w", err)
	}
	_, _ = unix.Read(w.wake, make([]byte, 8))
	n, err := unix.Read(w.fd, w.buffer)
	if errors.Is(err, unix.EAGAIN) {
		return nil, true, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("watch: %w", err)
	}
	var what uint32
	for events := w.buffer[:n]; len(events) >= unix.SizeofInotifyEvent; {
		folder := int32(binary.NativeEndian.Uint32(events)) //nolint:gosec // the kernel's own size
		what |= binary.NativeEndian.Uint32(events[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		name := bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00")
		if f, ok := cachekey.ParseFile(string(name)); ok && f.Folder() == w.folders[folder] {
			files = append(files, f)
		}
		events = events[end:]
	}
	switch {
	case what&gone != 0:
		return files, false, ErrGone
	case what&unix.IN_Q_OVERFLOW != 0:
		return files, false, ErrOverflow
	}
	// The kernel returns as many events as fit, so there is no other if another would have fitted.
	return files, n+unix.SizeofInotifyEvent+unix.NAME_MAX+1 <= len(w.buffer), nil
}
