package crash

import (
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
)

// window is how long before the crash a file can have been written that was not on the disk yet. Linux writes what is
// older than 30 seconds (vm.dirty_expire_centisecs); a busy disk takes longer.
const window = 2 * time.Minute

// suspects are the files that a crash can have cut. They collect themselves while the folders of a cache are read, the
// one that changed last first.
type suspects struct {
	// now is when the check began. A later time comes from a clock that was wrong.
	now time.Time
	// last is when a file was last written, as far as is known: about when the crash was.
	last  time.Time
	files []suspect
}

type suspect struct {
	path    string
	written time.Time
}

// mayBeIn returns true if a folder that changed at a time can have suspects. A file comes into its folder after it was
// written. A folder that changed last because a file was removed from it says nothing about when the crash was.
func (s *suspects) mayBeIn(changed time.Time) bool { return !changed.Before(s.last.Add(-window)) }

// add adds a file that was written at a time.
func (s *suspects) add(path string, written time.Time) {
	if s.mayBeIn(written) {
		s.files = append(s.files, suspect{path, written})
	}
	if written.After(s.last) && !written.After(s.now) {
		s.last = written
	}
}

// paths returns the suspects, once all folders were read that can have some.
func (s *suspects) paths() (paths []string) {
	for _, f := range s.files {
		if s.mayBeIn(f.written) {
			paths = append(paths, f.path)
		}
	}
	return paths
}

// isWhole returns true if a file is as long as its header says, and has no hole. hole is where its first hole begins;
// size if there is none. A response without a Content-Length never counts as whole, because nothing says where it ends.
func isWhole(h cachefile.Header, size, hole int64) bool {
	length, ok := h.Length()
	return ok && size == h.Body+length && hole >= size
}
