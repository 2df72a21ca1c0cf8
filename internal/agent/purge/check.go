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

// check looks for files that a crash of the node has cut short, and removes them. It does this once after each boot,
// and once after a disk has come from another node. nginx does not use the disk before the check has ended. An
// interrupted check is repeated.
func (a *applier) check(ctx context.Context) error {
	if a.isMemory() {
		return nil
	}
	boot, err := crash.Boot()
	if err != nil {
		return err
	}
	noted, err := os.ReadFile(a.Checked)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(noted) == boot {
		return nil
	}
	a.explain("files from before the crash are being checked")
	a.set(func() { a.isRead = false })
	done, err := crash.Check(ctx, a.purger.Clock.Now(), a.Folder, a.IsUsable)
	for range done.Removed {
		a.purger.removed(a.name, sweep.Cut)
	}
	if err != nil {
		return fmt.Errorf("checking files from before the crash: %w", err)
	}
	a.purger.log.Info("files from before the node's start were checked", "disk", a.name,
		"folders", done.Folders, "files", done.Files, "opened", done.Opened, "removed", done.Removed)
	return replace(a.Checked, []byte(boot))
}
