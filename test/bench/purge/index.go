package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// indexCache is the size in bytes of the cache in memory that all indexes of an agent share.
const indexCache = 8 << 20

// keepIndexes completes the indexes of the caches in the folders dirs, without a limit of its speed. Then it writes to
// out, as JSON, the time and the resources that this took.
func keepIndexes(dirs []string, out io.Writer) error {
	begun, blocks := time.Now(), index.NewCache(indexCache)
	var group errgroup.Group
	for _, dir := range dirs {
		group.Go(func() error { return keepIndex(dir, blocks) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	run := result.IndexRun{Seconds: time.Since(begun).Seconds()}
	blocks.Close()
	self, err := procfs.Self()
	if err != nil {
		return err
	}
	u, err := usedBy(self)
	if err != nil {
		return err
	}
	run.CPU, run.Peak = u.cpu, u.peak
	return json.NewEncoder(out).Encode(run)
}

// keepIndex completes the index of one cache.
func keepIndex(dir string, blocks *index.Cache) error {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	x, err := index.Open(filepath.Join(dir, "index"), string(boot), blocks)
	if err != nil {
		return err
	}
	k := &index.Keeper{
		Disk: index.Disk{Folder: filepath.Join(dir, "cache"), Index: x, TagHeaders: []string{"Surrogate-Key", "Cache-Tag"}},
		Pace: rate.NewLimiter(rate.Inf, 1),
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	for {
		err := k.Sync(ctx)
		if err == nil {
			break
		} else if !errors.Is(err, index.ErrIncomplete) {
			return err
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the keeper has ended: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	return errors.Join(<-ended, x.Close())
}
