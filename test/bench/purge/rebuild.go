package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/test/bench/cachepod"
	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// rebuild measures two processes. The first process builds the indexes of two disks from nginx's files alone. The
// second process opens these indexes.
func rebuild(o options) (r result.PurgeRebuild, err error) {
	r = result.PurgeRebuild{
		Rounds: o.rounds, Files: o.files, Disks: disks, Bytes: fileBytes, MemoryLimit: manifest.AgentMemoryLimit(disks),
	}
	// Each file takes a block of 1 KiB and an inode of half a KiB. The folders and the index need another KiB for each
	// file.
	mebibytes := max(leastDisk, int64(o.files/disks*5/2>>10)+128)
	return r, withLab(o, disks*mebibytes, func(b *bench) error {
		var dirs []string
		for i := range disks {
			d, err := b.Disk(fmt.Sprintf("disk%d", i+1), mebibytes, lab.Preparation{
				FileSystem: "xfs", MkfsArgs: []string{"-b", "size=1024", "-i", "maxpct=50"}, ReadAhead: 128,
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "disk %d is filled ...\n", i+1)
			if err := writeFiles(filepath.Join(d.Dir, "cache"), i, o.files/disks); err != nil {
				return err
			}
			dirs = append(dirs, d.Dir)
		}
		for range o.rounds {
			s, err := b.rebuildOnce(dirs)
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%+v\n", s)
			r.Samples = append(r.Samples, s)
		}
		return nil
	})
}

func (b *bench) rebuildOnce(dirs []string) (s result.PurgeRebuildSample, err error) {
	for _, dir := range dirs {
		if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
			return s, err
		}
	}
	for _, run := range []*result.IndexRun{&s.Rebuild, &s.Start} {
		if err := lab.DropAllCaches(); err != nil {
			return s, err
		}
		command := exec.Command(b.self, append([]string{"index"}, dirs...)...)
		command.Env = append(os.Environ(), cachepod.AgentEnv(disks)...)
		command.Stderr = os.Stderr
		output, err := command.Output()
		if err != nil {
			return s, fmt.Errorf("index: %w", err)
		}
		if err := json.Unmarshal(output, run); err != nil {
			return s, err
		}
		if s.IndexBytes > 0 {
			continue
		}
		for _, dir := range dirs {
			n, err := diskBytes(filepath.Join(dir, "index"))
			if err != nil {
				return s, err
			}
			s.IndexBytes += n
		}
	}
	return s, nil
}
