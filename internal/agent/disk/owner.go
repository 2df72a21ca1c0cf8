package disk

import (
	"context"
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
	// cacheFolder is the name of nginx's cache folder; see layout.CacheDir.
	cacheFolder = "cache"
	// foreignFolder is the prefix of the names of caches that are being deleted.
	foreignFolder = "cache.foreign"
)

// Owner is the CacheNode that owns the cache on a disk. A CacheNode that is deleted and recreated still owns its
// cache if its key was kept.
type Owner struct {
	Namespace string
	Name      string
	// Disk is the name of the disk. The signature of the mark also covers this name.
	Disk string
	// Key signs the mark, so that nobody else can write a mark in this CacheNode's name. Without a key, marks are not
	// signed, and any mark with the right name is accepted.
	Key []byte
	// TookOver is called after a cache was set aside to be deleted; nil for no call.
	TookOver func()
	// Legacy is the time at which a CacheNode that was already running got its key; zero for other CacheNodes. An
	// unsigned mark from before that time is accepted once, and is then signed.
	Legacy time.Time
}

func (o Owner) String() string { return o.Namespace + "/" + o.Name }

// mark is the content of the mark on a disk.
type mark struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// MAC is an HMAC-SHA256 of namespace, name and disk, in hexadecimal; "" in a mark that was written without a key.
	MAC string `json:"mac,omitempty"`
}

func (m mark) owner() string { return m.Namespace + "/" + m.Name }

// claim checks the mark in our folder on a disk. If the mark names another CacheNode, claim returns a finding. If the
// rules allow it, claim takes the disk over instead: it sets the cache aside, starts the clearing c, which deletes the
// cache, and writes a new mark. claim also takes over a cache without a mark, and a cache whose mark contains our name
// but not our signature. It does not take over a cache with an unsigned mark from before o.Legacy, but signs the mark.
// If we have no key, claim takes over none of these caches: it adds a missing mark, and accepts every mark with our
// name.
func (o Owner) claim(ctx context.Context, folder string, rules Rules, c *clearing) error {
	path := filepath.Join(folder, ownerFile)
	text, err := readMark(path)
	if errors.Is(err, os.ErrNotExist) {
		if len(o.Key) == 0 {
			return o.mark(path)
		}
		return o.takeOver(ctx, folder, c)
	}
	if err != nil {
		return err
	}
	var found mark
	if err := json.Unmarshal(text, &found); err != nil || found.Name == "" {
		// The mark is incomplete or damaged, so the owner of the cache is unknown.
		found = mark{Namespace: "?", Name: "?"}
	}
	if found.owner() == o.String() {
		return o.recognize(ctx, found, folder, c)
	}
	if damaged := found.Name == "?"; !rules.Empty && (damaged || rules.Abandoned != found.owner()) {
		owner := found.owner()
		if damaged {
			owner = "" // an unknown owner never counts as deleted
		}
		return &finding{
			reason: v1alpha1.DiskForeignCache, owner: owner,
			text: fmt.Sprintf("holds the cache of CacheNode %s: use another disk or, if nobody needs that cache, "+
				"set foreignCache to Empty", found.owner()),
		}
	}
	return o.takeOver(ctx, folder, c)
}

// recognize checks whether a mark that contains our name is really ours. If it is not, recognize takes the disk over.
func (o Owner) recognize(ctx context.Context, found mark, folder string, c *clearing) error {
	path := filepath.Join(folder, ownerFile)
	switch {
	case len(o.Key) == 0 || hmac.Equal([]byte(found.MAC), []byte(o.mac())):
		c.start(ctx, folder) // an earlier pod may not have deleted all foreign files
		return nil
	case found.MAC == "" && !o.Legacy.IsZero() && isOlder(path, o.Legacy):
		return o.mark(path)
	}
	return o.takeOver(ctx, folder, c)
}

// isOlder reports whether a file last changed before a time, by its ctime, which only the kernel can set.
func isOlder(path string, than time.Time) bool {
	var stat unix.Stat_t
	return unix.Lstat(path, &stat) == nil && time.Unix(stat.Ctim.Unix()).Before(than)
}

// takeOver sets the existing cache aside for deletion, and marks the disk as ours.
func (o Owner) takeOver(ctx context.Context, folder string, c *clearing) error {
	if err := setAside(folder); err != nil {
		return err
	}
	c.start(ctx, folder)
	if o.TookOver != nil {
		o.TookOver()
	}
	return o.mark(filepath.Join(folder, ownerFile))
}

// mac returns the signature of our mark; "" without a key.
func (o Owner) mac() string {
	if len(o.Key) == 0 {
		return ""
	}
	sum := hmac.New(sha256.New, o.Key)
	sum.Write([]byte(o.String() + "\x00" + o.Disk))
	return hex.EncodeToString(sum.Sum(nil))
}

// setAside renames a cache, so that it can be deleted in the background. A cache that was set aside earlier may still
// exist.
func setAside(folder string) error {
	err := os.Rename(filepath.Join(folder, cacheFolder), filepath.Join(folder, newForeign()))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// maxMark is the largest number of bytes that are read of a mark, because somebody else may have written the mark.
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
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil { // an empty mark would count as foreign
		return err
	}
	return os.Rename(next, path)
}
