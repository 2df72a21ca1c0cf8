package disk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const (
	ownerFile = "owner.json"
	// cacheFolder is nginx's, see layout.CacheDir.
	cacheFolder = "cache"
	// foreignFolder begins the names of caches that are being deleted.
	foreignFolder = "cache.foreign"
)

// Owner is the CacheNode whose cache is on a disk. A CacheNode that is deleted and created again finds its cache if its key was kept.
type Owner struct {
	Namespace string
	Name      string
	// Disk is the disk's name, which is signed too.
	Disk string
	// Key signs the mark, so that nobody can write one in this CacheNode's name. Empty: marks are not signed, and any with the
	// right name is believed.
	Key []byte
	// TookOver is called after a cache was set aside to be deleted; nil for nothing.
	TookOver func()
	// Legacy is when the CacheNode got its key, if it was at work before: a mark of before that is believed once, and signed.
	Legacy time.Time
}

func (o Owner) String() string { return o.Namespace + "/" + o.Name }

// mark is the content of the owner's mark on a disk.
type mark struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// MAC is an HMAC-SHA256 of namespace, name and disk, in hexadecimal; "" in marks of agents that knew no key.
	MAC string `json:"mac,omitempty"`
}

func (m mark) owner() string { return m.Namespace + "/" + m.Name }

// claim looks at the mark in our folder on a disk. A folder without a mark is marked; one with another's is a finding or,
// where that is allowed, its cache is set aside for c to delete and the mark replaced. The same happens to a cache whose mark
// has our name but not our signature.
func (o Owner) claim(folder string, rules Rules, c *clearing) error {
	path := filepath.Join(folder, ownerFile)
	text, err := readMark(path)
	if errors.Is(err, os.ErrNotExist) {
		if len(o.Key) == 0 {
			return o.mark(path)
		}
		return o.takeOver(folder, c)
	}
	if err != nil {
		return err
	}
	var found mark
	if err := json.Unmarshal(text, &found); err != nil || found.Name == "" {
		// A mark that was not written to its end, or was damaged: whose cache it is cannot be told.
		found = mark{Namespace: "?", Name: "?"}
	}
	if found.owner() == o.String() {
		return o.recognize(found, folder, c)
	}
	if damaged := found.Name == "?"; !rules.Empty && (damaged || rules.Abandoned != found.owner()) {
		owner := found.owner()
		if damaged {
			owner = "" // nobody can say that it is gone
		}
		return &finding{
			reason: v1alpha1.DiskForeignCache, owner: owner,
			text: fmt.Sprintf("holds the cache of CacheNode %s: use another disk or, if nobody needs that cache, set foreignCache to Empty", found.owner()),
		}
	}
	return o.takeOver(folder, c)
}

// recognize looks whether a mark in our name is ours.
func (o Owner) recognize(found mark, folder string, c *clearing) error {
	path := filepath.Join(folder, ownerFile)
	switch {
	case len(o.Key) == 0 || hmac.Equal([]byte(found.MAC), []byte(o.mac())):
		c.start(folder) // a pod before this one may not have come to the end of it
		return nil
	case found.MAC == "" && !o.Legacy.IsZero() && changed(path).Before(o.Legacy):
		return o.mark(path)
	}
	return o.takeOver(folder, c)
}

// changed is when a file was last changed in any way, which only the kernel can say; now, if it does not.
func changed(path string) time.Time {
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) != nil {
		return time.Now()
	}
	return time.Unix(stat.Ctim.Unix())
}

// takeOver has the cache that is there deleted and the disk marked.
func (o Owner) takeOver(folder string, c *clearing) error {
	if err := setAside(folder); err != nil {
		return err
	}
	c.start(folder)
	if o.TookOver != nil {
		o.TookOver()
	}
	return o.mark(filepath.Join(folder, ownerFile))
}

// mac is the signature of our mark; "" without a key.
func (o Owner) mac() string {
	if len(o.Key) == 0 {
		return ""
	}
	sum := hmac.New(sha256.New, o.Key)
	sum.Write([]byte(o.String() + "\x00" + o.Disk))
	return hex.EncodeToString(sum.Sum(nil))
}

// setAside gives a cache a name under which it is deleted, which may take long. One from before may still be there.
func setAside(folder string) error {
	err := os.Rename(filepath.Join(folder, cacheFolder), filepath.Join(folder, newForeign()))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// maxMark bounds what is read of a mark, which somebody else may have written.
const maxMark = 4 << 10

func readMark(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0) //nolint:gosec // the path is ours
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxMark))
}

func (o Owner) mark(path string) error {
	text, err := json.Marshal(mark{Namespace: o.Namespace, Name: o.Name, MAC: o.mac()})
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
