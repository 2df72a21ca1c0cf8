package metrics

import (
	"math/rand/v2"
	"os"
	"path/filepath"
)

const (
	// sampleFolders is the number of second-level folders that are read. sampleStats is the number of files in these
	// folders whose size is read. This is enough for an estimate within a few percent, and causes little load on a busy
	// disk.
	sampleFolders = 16
	sampleStats   = 256
)

// Estimate estimates the number of files of a cache and their bytes from a sample of its folders. nginx spreads its
// files evenly over 16 folders of 256 folders each (levels=1:2), by the last digits of the MD5 hash of the key.
// Estimate blocks while the disk hangs.
func Estimate(cache string) (Files, error) {
	var leaves []string
	first, err := os.ReadDir(cache)
	if err != nil {
		return Files{}, err
	}
	for _, folder := range first {
		if !folder.IsDir() {
			continue
		}
		second, err := os.ReadDir(filepath.Join(cache, folder.Name()))
		if err != nil {
			return Files{}, err
		}
		for _, leaf := range second {
			leaves = append(leaves, filepath.Join(cache, folder.Name(), leaf.Name()))
		}
	}
	rand.Shuffle(len(leaves), func(i, j int) { leaves[i], leaves[j] = leaves[j], leaves[i] }) //nolint:gosec // a sample
	looked := leaves[:min(sampleFolders, len(leaves))]
	var count, sized, bytes int64
	for _, leaf := range looked {
		files, err := os.ReadDir(leaf)
		if err != nil {
			return Files{}, err
		}
		count += int64(len(files))
		for _, file := range files {
			if sized >= sampleStats {
				break
			}
			if info, err := file.Info(); err == nil && info.Mode().IsRegular() {
				sized++
				bytes += info.Size()
			}
		}
	}
	if len(looked) == 0 || sized == 0 {
		return Files{}, nil
	}
	total := count * int64(len(leaves)) / int64(len(looked))
	return Files{Count: total, Bytes: total * (bytes / sized)}, nil
}
