package crash

import (
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
)

// window is the time before the crash during which written data may not have reached the disk. Linux writes data to
// the disk when it is older than 30 seconds (vm.dirty_expire_centisecs); a busy disk takes longer.
const window = 2 * time.Minute

// suspects collects the files that a crash can have cut. The caller reads the folders of a cache and adds their
// files; it begins with the folder that changed last.
type suspects struct {
	// now is the time at which the check began. If a file has a later time, the clock was wrong when the file was written.
	now time.Time
	// last is the latest time at which any of the files read so far was written. This is about the time of the crash.
	last  time.Time
	files []suspect
}

type suspect struct {
	path    string
	written time.Time
}

// mayBeIn reports whether a folder that changed at the given time can contain suspects. nginx moves a file into its
// folder after it has written the file. So a folder that changed before the window contains no file that a crash can
// have cut. The removal of a file also changes the time of its folder, so this time does not show when the crash was.
func (s *suspects) mayBeIn(changed time.Time) bool { return !changed.Before(s.last.Add(-window)) }

// add adds a file that was written at the given time, if a crash can have cut it.
func (s *suspects) add(path string, written time.Time) {
	if s.mayBeIn(written) {
		s.files = append(s.files, suspect{path, written})
	}
	if written.After(s.last) && !written.After(s.now) {
		s.last = written
	}
}

// paths returns the paths of the suspects. The caller must first have read all folders that can contain suspects.
func (s *suspects) paths() (paths []string) {
	for _, f := range s.files {
		if s.mayBeIn(f.written) {
			paths = append(paths, f.path)
		}
	}
	return paths
}

// isWhole reports whether a file has the length that its header states, and has no hole. hole is the offset of the
// file's first hole; it equals size if there is no hole. If the header does not state the length, isWhole returns
// false. A header states the length by Content-Length, or by one of the statuses 204 and 304.
func isWhole(h cachefile.Header, size, hole int64) bool {
	length, ok := h.Length()
	return ok && size == h.Body+length && hole >= size
}
