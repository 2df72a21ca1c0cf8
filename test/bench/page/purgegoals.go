package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// The goals of docs/benchmarks/purge.md.
const (
	goalMemory = 96   // MiB
	goalBytes  = 100  // of the index, an object
	goalLag    = 1000 // ms
)

// purgeGoals has the goals for purges, and whether they are reached.
func (r *results) purgeGoals() (string, error) {
	read := func(name string) string { return filepath.Join(r.folder, name+".json") }
	hits, err := r.purgeHits()
	if err != nil {
		return "", err
	}
	rate, err := readDocument[result.PurgeRate](read("purge-rate"))
	if err != nil {
		return "", err
	}
	rebuild, err := readDocument[result.PurgeRebuild](read("purge-rebuild"))
	if err != nil {
		return "", err
	}
	files := float64(rebuild.Result.Files)
	lag := func(s result.PurgeRateSample) float64 { return s.LastLag }
	peak := func(s result.PurgeRebuildSample) float64 { return s.Rebuild.Peak }
	each := func(s result.PurgeRebuildSample) float64 { return float64(s.IndexBytes) / files }
	lines := [][]string{{"goal", "at most", "here", "reached"}}
	for _, g := range []struct {
		label      string
		most, here float64
	}{
		{"HITs of purged objects, all cases", 0, float64(hits)},
		{
			fmt.Sprintf("lag of the last purge, %s a second, ms", thousands(float64(rate.Result.PerSecond))),
			goalLag, result.Median(result.Values(rate.Result.Samples, lag)),
		},
		{
			fmt.Sprintf("memory to index %s files on %d disks, MiB", thousands(files), rebuild.Result.Disks),
			goalMemory, result.Median(result.Values(rebuild.Result.Samples, peak)),
		},
		{"index on disk, bytes an object", goalBytes, result.Median(result.Values(rebuild.Result.Samples, each))},
	} {
		reached := "yes"
		if g.here > g.most {
			reached = "**no**"
		}
		lines = append(lines, []string{g.label, thousands(g.most), thousands(g.here), reached})
	}
	return markdown(lines), nil
}

// purgeHits is how many purged objects were HITs of CacheNode afterwards, in all cases.
func (r *results) purgeHits() (hits int64, err error) {
	u, err := readDocument[result.PurgeURLs](filepath.Join(r.folder, "purge-urls.json"))
	if err != nil {
		return 0, err
	}
	for _, s := range u.Result.Samples {
		if strings.HasPrefix(s.System, ownName) {
			hits += s.Hits
		}
	}
	for _, name := range []string{"purge-tag", "purge-prefix"} {
		b, err := readDocument[result.PurgeBulk](filepath.Join(r.folder, name+".json"))
		if err != nil {
			return 0, err
		}
		for _, s := range b.Result.Samples {
			if s.System == ownName {
				hits += s.Hits
			}
		}
	}
	return hits, nil
}
