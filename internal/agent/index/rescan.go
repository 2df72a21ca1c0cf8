package index

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// Disk is the cache of a disk: the folder of nginx's files, and their index.
type Disk struct {
	// Folder is the path of the cache (proxy_cache_path).
	Folder string
	Index  *Index
	// TagHeaders are the names of the response headers that contain the tags.
	TagHeaders []string
	// Stored is called with the entry of each file that was stored or rescanned. If Stored returns false, it has removed
	// the file. nil keeps all files.
	Stored func(Entry) (kept bool, err error)
}

// Read returns the entry of a file; ok is false for a file that does not exist or that nginx cannot use. Errors come
// from the disk.
func (d Disk) Read(f cachekey.File) (e Entry, ok bool, err error) {
	file, err := os.Open(d.Folder + "/" + f.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return e, false, nil
	} else if err != nil {
		return e, false, err
	}
	defer func() { _ = file.Close() }()
	h, err := cachefile.Read(file)
	if errors.Is(err, cachefile.ErrVersion) || errors.Is(err, cachefile.ErrDamaged) || strings.Contains(h.Key, "\x00") {
		return e, false, nil
	} else if err != nil {
		return e, false, err
	}
	info, err := file.Stat()
	if err != nil {
		return e, false, err
	}
	key := cachekey.Parse(h.Key)
	e = Entry{
		File: f, Key: key.Object(), Generation: key.Generation, Received: h.Received, ValidUntil: h.ValidUntil,
		Stale: h.Stale, Stored: info.ModTime().Truncate(time.Second), Size: info.Size(),
	}
	if h.CanBeRenewed() {
		e.Stale = cachefile.MaxStale
	}
	var tags []string
	for _, name := range d.TagHeaders {
		tags = append(tags, h.Values(name)...)
	}
	e.Tags = ParseTags(tags)
	return e, true, nil
}

// lostByCrash is an upper limit: a crash of the machine undoes only the changes to a file system that were made
// within this time before the crash.
const lostByCrash = 2 * time.Minute

// stale is a folder that must be rescanned. The index already contains the files of the folder that are older than
// since. rebooted is true if a crash of the machine may have undone changes. unchanged is true if the folder's own
// time is older than since.
type stale struct {
	folder              cachekey.Folder
	since               time.Time
	rebooted, unchanged bool
}

// stale returns the folders that have changed since they were scanned, or since the last checkpoint if that is later.
// After a reboot of the machine, it returns all folders that were not scanned since the reboot. The error is
// [ErrGone] if a folder does not exist.
func (d Disk) stale() (list []stale, err error) {
	checkpoint, rebooted, err := d.Index.Checkpoint()
	if err != nil {
		return nil, err
	}
	scans, err := d.Index.scans()
	if err != nil {
		return nil, err
	}
	for folder := range cachekey.Folder(cachekey.Folders) {
		last := scans[folder.Path()]
		since, isOld := last.at, last.rebooted
		if since.Before(checkpoint) {
			since, isOld = checkpoint, rebooted
		}
		if !since.IsZero() {
			since = since.Add(-margin)
			if isOld {
				since = since.Add(-lostByCrash)
			}
		}
		info, err := os.Stat(d.Folder + "/" + folder.Path())
		if errors.Is(err, fs.ErrNotExist) {
			return nil, ErrGone
		} else if err != nil {
			return nil, err
		}
		hasChanged := !changed(info).Before(since)
		if hasChanged || isOld {
			list = append(list, stale{folder, since, isOld, !hasChanged})
		}
	}
	return list, nil
}

// makeFolders creates the folders of a cache that do not exist.
func (d Disk) makeFolders() error {
	if err := mkdir(d.Folder); err != nil {
		return err
	}
	made := map[string]map[string]bool{} // the names in each folder of the first level
	for folder := range cachekey.Folder(cachekey.Folders) {
		above, name := filepath.Split(folder.Path())
		names, isRead := made[above]
		if !isRead {
			var err error
			if names, err = makeAndRead(d.Folder + "/" + above); err != nil {
				return err
			}
			made[above] = names
		}
		if names[name] {
			continue
		}
		if err := mkdir(d.Folder + "/" + folder.Path()); err != nil {
			return err
		}
	}
	return nil
}

// makeAndRead creates a folder if it does not exist, and returns the names in it.
func makeAndRead(path string) (map[string]bool, error) {
	if err := mkdir(path); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	names := map[string]bool{}
	for _, entry := range entries {
		names[entry.Name()] = true
	}
	return names, err
}

// mkdir creates a folder to which nginx's group can write, if the folder does not exist.
func mkdir(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	// Chmod sets the mode again, because the umask removes bits from Mkdir's mode. The folder already has the group of
	// the folder above it.
	return os.Chmod(path, 0o770|fs.ModeSetgid)
}

// changed returns the time of the last change of a file or folder (ctime). Unlike the time of the content, this time
// also changes with a rename.
func changed(info fs.FileInfo) time.Time {
	s := info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // on Linux
	return time.Unix(s.Ctim.Unix())
}

// batch is the number of changes that are applied to the index at once.
const batch = 64

// pauseAfter is the number of file names in a folder after which the scanner pauses, so that events are read.
const pauseAfter = 512

// scanner rescans folders.
type scanner struct {
	Disk
	// pace is called before each read of a file. pause is called between batches, when the scanner holds no changes that
	// could overwrite newer changes.
	pace, pause func() error
	// unreadable contains the files that could not be read, with the number of attempts. read counts the files that
	// could be read.
	unreadable map[cachekey.File]int
	read       int64
}

// tries is the largest number of attempts to read a file. If all of them fail, nginx cannot read the file either, and
// does not serve it.
const tries = 3

// misses returns true while some files must still be read again.
func (s *scanner) misses() bool {
	for _, tried := range s.unreadable {
		if tried < tries {
			return true
		}
	}
	return false
}

// retry tries again to read the files that could not be read.
func (s *scanner) retry() error {
	var changes []Change
	for f := range maps.Clone(s.unreadable) {
		if s.unreadable[f] < tries {
			changes = s.look(changes, f)
		}
	}
	return s.Index.Apply(changes)
}

// scan makes the index of a folder match the files in the folder. It reads only files that the index does not
// contain, and files that have changed since of.since. The watch of the folder must begin before the scan. Otherwise
// the index would miss changes that nginx makes during the scan.
func (s *scanner) scan(of stale) error {
	begun := s.Index.Clock.Now()
	known := map[cachekey.File]bool{}
	for f, err := range s.Index.InFolder(of.folder) {
		if err != nil {
			return err
		}
		known[f] = true
	}
	names, err := os.ReadDir(s.Folder + "/" + of.folder.Path())
	if err != nil {
		return err
	}
	var changes []Change
	for i, name := range names {
		if i%pauseAfter == pauseAfter-1 {
			if err := errors.Join(s.Index.Apply(changes), s.pause()); err != nil {
				return err
			}
			changes = changes[:0]
		}
		f, ok := cachekey.ParseFile(name.Name())
		if !ok || f.Folder() != of.folder {
			continue
		}
		isKnown := known[f]
		delete(known, f)
		if isKnown && s.isAsKnown(of, f, name) {
			continue
		}
		if err := s.pace(); err != nil {
			return err
		}
		if changes = s.look(changes, f); len(changes) < batch {
			continue
		}
		if err := errors.Join(s.Index.Apply(changes), s.pause()); err != nil {
			return err
		}
		changes = changes[:0]
	}
	for f := range known {
		changes = s.look(changes, f)
	}
	return errors.Join(s.Index.Apply(changes), s.Index.SetScanned(of.folder, begun))
}

// isAsKnown reports whether the index's entry of a file is still correct, so that the file need not be read. After a
// reboot, an entry that is newer than of.since is not trusted, because a crash may have undone the change that it
// describes. In a folder that has not changed, no file is newer than of.since.
func (s *scanner) isAsKnown(of stale, f cachekey.File, name os.DirEntry) bool {
	if of.rebooted {
		e, ok, err := s.Index.Get(f)
		if err != nil || !ok || !e.Stored.Before(of.since) {
			return false
		}
	}
	if of.unchanged {
		return true
	}
	info, err := name.Info()
	return err == nil && changed(info).Before(of.since)
}

// look reads a file and appends one change to changes: either the file was stored, or it was removed. If the file
// cannot be read, its entry stays.
func (s *scanner) look(changes []Change, f cachekey.File) []Change {
	e, ok, err := s.Read(f)
	switch {
	case err != nil:
		s.unreadable[f]++
		return changes
	case !ok:
		delete(s.unreadable, f)
		return append(changes, Change{File: f})
	}
	s.read++
	if s.Stored != nil {
		kept, err := s.Stored(e)
		if err != nil {
			s.unreadable[f]++
			return changes
		} else if !kept {
			delete(s.unreadable, f)
			return append(changes, Change{File: f})
		}
	}
	delete(s.unreadable, f)
	return append(changes, Change{File: f, Entry: &e})
}
