package purge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/agent/crash"
	"github.com/cachenode/cachenode-operator/internal/agent/index"
)

// indexPrefix is the prefix of the names of all index folders.
const indexPrefix = "index-"

// open opens the store's index in a folder, and removes the indexes that are no longer useful. If an index fails, this
// process cannot open it again. Each new index therefore gets a folder with a new name.
func (a *applier) open() (x *index.Index, folder string, tagHeaders []string, err error) {
	a.purger.mutex.RLock()
	tagHeaders, blocks := a.purger.tagHeaders, a.purger.blocks
	a.purger.mutex.RUnlock()
	if a.isMemory() {
		x, err = index.OpenInMemory(blocks)
		return x, "", tagHeaders, err
	}
	boot, err := crash.Boot()
	if err != nil {
		return nil, "", nil, err
	}
	// An index that was built with other tag headers contains the wrong tags. The name of the folder therefore depends on
	// the tag headers.
	begin := indexPrefix + hashOf(append([]string{index.Format}, tagHeaders...)) + "-"
	old, err := filepath.Glob(filepath.Join(a.Indexes, indexPrefix+"*"))
	if err != nil {
		return nil, "", nil, err
	}
	for _, one := range old {
		if x == nil && strings.HasPrefix(filepath.Base(one), begin) {
			if x, err = index.Open(one, boot, blocks); err == nil {
				folder = one
				continue
			}
		}
		if err := os.RemoveAll(one); err != nil {
			return nil, "", nil, err
		}
	}
	if x == nil {
		folder = filepath.Join(a.Indexes, fmt.Sprintf("%s%d", begin, a.purger.Clock.Now().UnixNano()))
		x, err = index.Open(folder, boot, blocks)
	}
	return x, folder, tagHeaders, err
}

// close closes the index in a folder. If the disk has failed, the index never finishes closing, so close does not
// wait for the end. close removes a damaged index, so that the next index is built from nginx's files.
func (a *applier) close(x *index.Index, folder string) error {
	closed := make(chan struct{})
	go func() { _ = x.Close(); close(closed) }()
	select {
	case <-closed:
	case <-x.Failed():
	}
	if !x.Damaged() || a.isMemory() {
		return nil
	}
	a.purger.log.Warn("the index is damaged, and is rebuilt", "disk", a.name)
	return os.RemoveAll(folder)
}

// hashOf returns a hash of some texts. It identifies the format and the tag headers of an index in the name of its
// folder.
func hashOf(parts []string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(strings.Join(parts, " "))))
	return hex.EncodeToString(sum[:4])
}
