package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// The goals of docs/benchmarks/purge.md.
const (
	goalMemory  = 96   // MiB
	goalBytes   = 100  // bytes of the index for each object
	goalLag     = 1000 // ms
	goalMedian  = 100  // ms, for the purge of one URL
	goalP99     = 300  // ms, for the purge of one URL
	goalApplied = 2000 // ms, for the purge of 100,000 objects
)

// threePods is the name in the results of CacheNode with three pods.
const threePods = "cachenode-3"

// purgeGoals returns the table of the goals for purges, with the measured figure of each goal, and whether the goal
// is reached.
func (r *results) purgeGoals() (string, error) {
	read := func(name string) string { return filepath.Join(r.folder, name+".json") }
	hits, err := r.purgeHits()
	if err != nil {
		return "", err
	}
	urls, err := readDocument[result.PurgeURLs](read("purge-urls"))
	if err != nil {
		return "", err
	}
	tag, err := readDocument[result.PurgeBulk](read("purge-tag"))
	if err != nil {
		return "", err
	}
	one := slices.DeleteFunc(urls.Result.Samples, func(s result.PurgeURLSample) bool { return s.System != threePods })
	many := slices.DeleteFunc(tag.Result.Samples, func(s result.PurgeBulkSample) bool { return s.System != ownName })
	rate, err := readDocument[result.PurgeRate](read("purge-rate"))
	if err != nil {
		return "", err
	}
	rebuild, err := readDocument[result.PurgeRebuild](read("purge-rebuild"))
	if err != nil {
		return "", err
	}
	files := float64(rebuild.Result.Files)
	p50 := func(s result.PurgeURLSample) float64 { return s.Answered.P50 }
	p99 := func(s result.PurgeURLSample) float64 { return s.Answered.P99 }
	applied := func(s result.PurgeBulkSample) float64 { return 1000 * s.Applied }
	lag := func(s result.PurgeRateSample) float64 { return s.LastLag }
	peak := func(s result.PurgeRebuildSample) float64 { return s.Rebuild.Peak }
	each := func(s result.PurgeRebuildSample) float64 { return float64(s.IndexBytes) / files }
	lines := [][]string{{"goal", "at most", "measured", "reached"}}
	for _, g := range []struct {
		label      string
		most, here float64
	}{
		{"HITs of purged objects, all cases", 0, float64(hits)},
		{"one URL on three pods, p50 ms", goalMedian, result.Median(result.Values(one, p50))},
		{"one URL on three pods, p99 ms", goalP99, result.Median(result.Values(one, p99))},
		{
			fmt.Sprintf("a tag of %s objects, applied after, ms", thousands(float64(tag.Result.Purged))),
			goalApplied, result.Median(result.Values(many, applied)),
		},
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

// purgeHits returns the number of HITs for purged objects after their purge, over all cases of CacheNode.
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
