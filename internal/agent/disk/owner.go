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
	// foreignFolder begins the names of caches that are being deleted.
	foreignFolder = "cache.foreign"
)

// Owner is the CacheNode whose cache is on a disk. The same CacheNode made anew finds its cache again.
type Owner struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (o Owner) String() string { return o.Namespace + "/" + o.Name }

// claim looks at the mark in our folder on a disk. A folder without a mark is marked; one with another's is a finding or,
// where that is allowed, its cache is set aside for c to delete and the mark replaced.
func (o Owner) claim(folder string, rules Rules, c *clearing) error {
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
	if found == o {
		c.start(folder) // a pod before this one may not have come to the end of it
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
	if err := setAside(folder); err != nil {
		return err
	}
	c.start(folder)
	return o.mark(path)
}

// setAside gives a cache a name under which it is deleted, which may take long. One from before may still be there.
func setAside(folder string) error {
	aside, err := os.MkdirTemp(folder, foreignFolder+".*")
	if err != nil {
		return err
	}
	err = os.Rename(filepath.Join(folder, cacheFolder), filepath.Join(aside, cacheFolder))
	if errors.Is(err, os.ErrNotExist) {
		return os.Remove(aside)
	}
	return err
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
