package index

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
)

// Disk is the cache of a disk: the folder of nginx's files, and their index.
type Disk struct {
	// Folder is the path of the cache (proxy_cache_path).
	Folder string
	Index  *Index
	// TagHeaders are the headers of a response that have its tags.
	TagHeaders []string
}

// Read is the entry of a file; ok is false for one that is gone, that nginx no longer uses, or that it cannot use.
func (d Disk) Read(f File) (e Entry, ok bool, err error) {
	file, err := os.Open(filepath.Join(d.Folder, f.Path()))
	if errors.Is(err, fs.ErrNotExist) {
		return e, false, nil
	} else if err != nil {
		return e, false, err
	}
	defer func() { _ = file.Close() }()
	h, err := cachefile.Read(file)
	if err != nil { // nginx takes such a file for a MISS
		return e, false, nil //nolint:nilerr // see above
	}
	e = Entry{File: f, Key: ObjectKey(h.Key), Received: h.Received}
	var tags []string
	for _, name := range d.TagHeaders {
		tags = append(tags, h.Values(name)...)
	}
	e.Tags = ParseTags(tags)
	return e, true, nil
}

// batch is how many changes of a folder are made at once.
const batch = 256

// Rescan makes the index of a folder what the folder is, and returns how many files it read. It reads only files that
// the index does not have, and those that were replaced since the given time; pace is called before each. The folder's
// watch must have begun before, so that nothing is missed that nginx does meanwhile.
func (d Disk) Rescan(folder Folder, since time.Time, pace func() error) (read int, err error) {
	known := map[File]bool{}
	for f, err := range d.Index.InFolder(folder) {
		if err != nil {
			return 0, err
		}
		known[f] = true
	}
	names, err := os.ReadDir(filepath.Join(d.Folder, folder.Path()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	var changes []Change
	for _, name := range names {
		f, ok := ParseFile(name.Name())
		if !ok || f.Folder() != folder {
			continue
		}
		isKnown := known[f]
		delete(known, f)
		if info, err := name.Info(); isKnown && (err != nil || info.ModTime().Before(since)) {
			continue
		}
		if err := pace(); err != nil {
			return read, err
		}
		read++
		change, err := d.change(f)
		if err != nil {
			return read, err
		}
		if changes = append(changes, change); len(changes) == batch {
			if err := d.Index.Apply(changes); err != nil {
				return read, err
			}
			changes = changes[:0]
		}
	}
	for f := range known {
		changes = append(changes, Change{File: f})
	}
	return read, d.Index.Apply(changes)
}

// change is what has become of a file.
func (d Disk) change(f File) (Change, error) {
	e, ok, err := d.Read(f)
	if err != nil || !ok {
		return Change{File: f}, err
	}
	return Change{File: f, Entry: &e}, nil
}

// Stale are the folders that have changed since a time, by the time of their own last change. Folders that do not exist
// are created.
func (d Disk) Stale(since time.Time) (stale []Folder, err error) {
	for folder := range Folder(Folders) {
		path := filepath.Join(d.Folder, folder.Path())
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			// As nginx creates them: levels of a cache are 0700, and the group is that of the folder above.
			if err := os.MkdirAll(path, 0o700); err != nil {
				return nil, err
			}
			continue
		} else if err != nil {
			return nil, err
		}
		if !info.ModTime().Before(since) {
			stale = append(stale, folder)
		}
	}
	return stale, nil
}
