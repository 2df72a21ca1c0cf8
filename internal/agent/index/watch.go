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

// ErrOverflow is the error of [Watch.Next] if the kernel has dropped some events, because nginx changed files faster
// than the agent read the events. After this error, all folders that have changed must be rescanned.
var ErrOverflow = errors.New("watch: events were lost")

// ErrGone is the error of [Watch.Next] when a folder that is watched was removed or renamed, or its disk was
// unmounted.
var ErrGone = errors.New("watch: a folder is gone")

// events is the source from which a keeper learns what nginx does: a [Watch], or a poll.
type events interface {
	Next(wait time.Duration) (files []cachekey.File, all bool, err error)
	Wake()
	Close() error
}

// Watch reports which files nginx stores and removes (inotify). It does not use the usual Go library for inotify,
// which cannot leave out the events of nginx's writes to temporary files. These temporary files are in the same
// folders. Only one goroutine may use a Watch.
type Watch struct {
	fd int
	// wake is the file descriptor of an eventfd, which ends a wait.
	wake    int
	folders map[int32]cachekey.Folder
	buffer  []byte
}

// mask selects the events for files that are complete, for files that are removed, and for the folder itself.
const mask = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | gone | unix.IN_ONLYDIR

// gone selects the events of a folder itself. The kernel sends IN_IGNORED and IN_UNMOUNT even if they are not
// selected.
const gone = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_IGNORED | unix.IN_UNMOUNT

// NewWatch starts to watch all folders of a cache. The folders must exist. The error ENOSPC means that the user has
// no watches left (fs.inotify.max_user_watches): each cache needs 4,097 watches, and the pods of a node share the
// limit.
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

// Wake ends the wait of [Watch.Next]. If Next is not waiting, Wake ends the wait of the next call. Any goroutine may
// call Wake, but not after Close. All other methods belong to one goroutine.
func (w *Watch) Wake() {
	_, _ = unix.Write(w.wake, binary.NativeEndian.AppendUint64(nil, 1)) // fails only if earlier wake-ups are unread
}

// Next returns the files that were stored or removed. It waits for the first of these files, but not longer than
// wait. all is true if the files include everything that happened before the call. The error [ErrOverflow] means that
// the kernel has dropped events, so that the returned files are not complete.
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
	// The kernel writes as many events into the buffer as fit. If the buffer still has room for another event, no further
	// event waits.
	return files, n+unix.SizeofInotifyEvent+unix.NAME_MAX+1 <= len(w.buffer), nil
}
