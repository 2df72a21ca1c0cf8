package purge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cachenode/cachenode-operator/internal/agent/crash"
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
)

// check looks for files that a crash of the node has cut, once after each boot, and after a disk has come from another
// node. nginx does not use the disk before that. A check that is interrupted is done again.
func (s *store) check(ctx context.Context) error {
	if s.isMemory() {
		return nil
	}
	boot, err := crash.Boot()
	if err != nil {
		return err
	}
	noted, err := os.ReadFile(s.Checked)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(noted) == boot {
		return nil
	}
	s.explain("files from before the crash are being checked")
	s.set(func() { s.isRead = false })
	done, err := crash.Check(ctx, s.purger.Clock.Now(), s.Folder, s.IsUsable)
	for range done.Removed {
		s.purger.removed(s.name, sweep.Cut)
	}
	if err != nil {
		return fmt.Errorf("checking files from before the crash: %w", err)
	}
	s.purger.log.Info("files from before the node's start were checked", "disk", s.name,
		"folders", done.Folders, "files", done.Files, "opened", done.Opened, "removed", done.Removed)
	return replace(s.Checked, []byte(boot))
}
