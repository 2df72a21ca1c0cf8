package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	ownerFile = "owner.json"
	// cacheFolder is nginx's, see naming.CacheDir.
	cacheFolder = "cache"
	// foreignFolder is a cache that is being deleted.
	foreignFolder = "cache.foreign"
)

// Owner is the CacheNode whose cache is on a disk. The same CacheNode made anew finds its cache again.
type Owner struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (o Owner) String() string { return o.Namespace + "/" + o.Name }

// claim looks at the mark in our folder on a disk. A folder without a mark is marked; one with another's is a finding or,
// where that is allowed, its cache is deleted in the background and the mark replaced.
func (o Owner) claim(folder string, rules Rules) error {
	path := filepath.Join(folder, ownerFile)
	text, err := os.ReadFile(path) //nolint:gosec // the path is ours
	if errors.Is(err, os.ErrNotExist) {
		return o.mark(path)
	}
	if err != nil {
		return err
	}
	var found Owner
	if err := json.Unmarshal(text, &found); err != nil {
		// A mark that was not written to its end, or was damaged: whose cache it is cannot be told.
		found = Owner{Namespace: "?", Name: "?"}
	}
	doomed := filepath.Join(folder, foreignFolder)
	if found == o {
		if _, err := os.Lstat(doomed); err == nil { // a pod before this one has not come to the end of it
			go func() { _ = os.RemoveAll(doomed) }()
		}
		return nil
	}
	if damaged := found.Name == "" || found.Name == "?"; !rules.Empty && (damaged || rules.Abandoned != found.String()) {
		owner := found.String()
		if damaged {
			owner = "" // nobody can say that it is gone
		}
		return &finding{
			reason: ForeignCache, owner: owner,
			text: fmt.Sprintf("holds the cache of CacheNode %s: delete the folder on the disk, or set foreignCache to Empty", found),
		}
	}
	if err := os.RemoveAll(doomed); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(folder, cacheFolder), doomed); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	go func() { _ = os.RemoveAll(doomed) }() // may take long; what is left goes with the next one
	return o.mark(path)
}

func (o Owner) mark(path string) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	next := path + ".next"
	file, err := os.Create(next) //nolint:gosec // the path is ours
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil { // an empty mark would be a stranger's
		return err
	}
	return os.Rename(next, path)
}
