package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// purgeTables maps the name of a result of the benchmark of purges to a function that returns its table.
var purgeTables = map[string]func(file string) (string, error){
	"purge-urls":    purgeTable(urlsTable),
	"purge-tag":     purgeTable(bulkTable),
	"purge-prefix":  purgeTable(bulkTable),
	"purge-rate":    purgeTable(rateTable),
	"purge-cost":    purgeTable(costTable),
	"purge-rebuild": purgeTable(rebuildTable),
	"purge-soak":    purgeTable(soakTable),
}

// purgeTable returns a function that reads a result from a file. The function returns the conditions of the
// measurement in sentences, followed by the table.
func purgeTable[T any](table func(T) (conditions string, lines [][]string)) func(file string) (string, error) {
	return func(file string) (string, error) {
		d, err := readDocument[T](file)
		if err != nil {
			return "", err
		}
		conditions, lines := table(d.Result)
		return fmt.Sprintf("%s.\nThe figures were measured on %s at commit %s ([JSON](%s)).\n\n%s",
			conditions, d.Date[:10], d.Commit, filepath.Base(file), markdown(lines)), nil
	}
}

// purgeSystems contains the systems whose purges are compared, in the order of the rows. The first string is the name
// in the results, and the second string is the name in tables.
var purgeSystems = [][2]string{
	{ownName, "**CacheNode**, one pod"},
	{"cachenode-3", "**CacheNode**, three pods at once"},
	{"varnish-purge", "Varnish, PURGE"},
	{"varnish-ban", "Varnish, a ban"},
	{trafficServer, "Traffic Server, PURGE"},
}

// spread returns the median of a figure over the samples. If there are several samples, the lowest and the highest
// figure follow in brackets.
func spread[S any](samples []S, figure func(S) float64) string {
	values := result.Values(samples, figure)
	if len(values) == 1 {
		return short(values[0])
	}
	return fmt.Sprintf("%s (%s-%s)", short(result.Median(values)), short(slices.Min(values)), short(slices.Max(values)))
}

// inRounds returns a number of rounds as text, such as "3 rounds".
func inRounds(n int) string {
	if n == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", n)
}

// where returns the samples for which a condition holds.
func where[S any](samples []S, holds func(S) bool) []S {
	return slices.DeleteFunc(slices.Clone(samples), func(s S) bool { return !holds(s) })
}

func urlsTable(u result.PurgeURLs) (string, [][]string) {
	type sample = result.PurgeURLSample
	lines := [][]string{{
		"cache", "purge answered after, p50 ms", "purge answered after, p99 ms",
		"new response after, p50 ms", "new response after, p99 ms",
		"HITs after the answer",
	}}
	for _, system := range purgeSystems {
		samples := where(u.Samples, func(s sample) bool { return s.System == system[0] })
		if len(samples) == 0 {
			continue
		}
		var hits int64
		for _, s := range samples {
			hits += s.Hits
		}
		lines = append(lines, []string{
			system[1],
			spread(samples, func(s sample) float64 { return s.Answered.P50 }),
			spread(samples, func(s sample) float64 { return s.Answered.P99 }),
			spread(samples, func(s sample) float64 { return s.Fresh.P50 }),
			spread(samples, func(s sample) float64 { return s.Fresh.P99 }), fmt.Sprint(hits),
		})
	}
	return fmt.Sprintf("The benchmark ran %s of %d URLs, purged one after another", inRounds(u.Rounds), u.Times), lines
}

func bulkTable(b result.PurgeBulk) (string, [][]string) {
	type sample = result.PurgeBulkSample
	lines := [][]string{{
		"cache", "purge applied after, ms", "HITs of purged objects", "p99 ms of other objects, before",
		"p99 ms of other objects, during", "agent's MiB, before", "agent's MiB, at most",
	}}
	for _, system := range purgeSystems {
		samples := where(b.Samples, func(s sample) bool { return s.System == system[0] })
		if len(samples) == 0 {
			continue
		}
		line := []string{system[1], spread(samples, func(s sample) float64 { return 1000 * s.Applied }), hitsOf(samples)}
		line = append(line, spread(samples, func(s sample) float64 { return s.Before.P99 }),
			spread(samples, func(s sample) float64 { return s.During.P99 }))
		if samples[0].MemoryPeak == 0 {
			lines = append(lines, append(line, "–", "–"))
			continue
		}
		lines = append(lines, append(line, spread(samples, func(s sample) float64 { return s.MemoryBefore }),
			spread(samples, func(s sample) float64 { return s.MemoryPeak })))
	}
	if b.Kind == "tag" {
		lines = append(lines, []string{"Varnish, xkey", "not in Debian's package", "–", "–", "–", "–", "–"})
	}
	return fmt.Sprintf("The benchmark ran %s; each round purged %s of %s objects.\n"+
		"Clients requested other objects for %g s before each purge, and for at least as long from its start on",
		inRounds(b.Rounds), thousands(float64(b.Purged)), thousands(float64(b.Objects)), b.Window), lines
}

// hitsOf returns a text with two numbers: the purged objects that were HITs after the purge, and all purged objects
// that were requested.
func hitsOf(samples []result.PurgeBulkSample) string {
	var hits, checked int64
	for _, s := range samples {
		hits, checked = hits+s.Hits, checked+int64(s.Checked)
	}
	return fmt.Sprintf("%d of %s", hits, thousands(float64(checked)))
}

func rateTable(r result.PurgeRate) (string, [][]string) {
	type sample = result.PurgeRateSample
	kibi := func(bytes int) float64 { return float64(bytes) / 1024 }
	return fmt.Sprintf("The benchmark ran %s of %g s, with %s purges a second of one URL each.\n"+
			"It started updates at least %g ms apart; each purge had a grace period of %g s",
			inRounds(r.Rounds), r.Seconds, thousands(float64(r.PerSecond)), r.Every, r.Grace),
		[][]string{
			{
				"updates", "lag, p50 ms", "lag, p99 ms", "lag of the last purge, ms", "agent's CPU s", "agent's MiB, at most",
				"journal, KiB", "journal in the ConfigMap, KiB",
			},
			{
				spread(r.Samples, func(s sample) float64 { return float64(s.Updates) }),
				spread(r.Samples, func(s sample) float64 { return s.Lag.P50 }),
				spread(r.Samples, func(s sample) float64 { return s.Lag.P99 }),
				spread(r.Samples, func(s sample) float64 { return s.LastLag }),
				spread(r.Samples, func(s sample) float64 { return s.CPU }),
				spread(r.Samples, func(s sample) float64 { return s.MemoryPeak }),
				spread(r.Samples, func(s sample) float64 { return kibi(s.JournalBytes) }),
				spread(r.Samples, func(s sample) float64 { return kibi(s.JournalEncoded) }),
			},
		}
}

func rebuildTable(r result.PurgeRebuild) (string, [][]string) {
	type sample = result.PurgeRebuildSample
	return fmt.Sprintf("The benchmark ran %s with %s files of %d bytes on %d disks.\n"+
			"The process had two processors and a soft memory limit of %s",
			inRounds(r.Rounds), thousands(float64(r.Files)), r.Bytes, r.Disks, r.MemoryLimit),
		[][]string{
			{"", "seconds", "CPU seconds", "memory at most, MiB", "index, bytes per object"},
			{
				"building a new index",
				spread(r.Samples, func(s sample) float64 { return s.Rebuild.Seconds }),
				spread(r.Samples, func(s sample) float64 { return s.Rebuild.CPU }),
				spread(r.Samples, func(s sample) float64 { return s.Rebuild.Peak }),
				spread(r.Samples, func(s sample) float64 { return float64(s.IndexBytes) / float64(r.Files) }),
			},
			{
				"opening an existing index",
				spread(r.Samples, func(s sample) float64 { return s.Start.Seconds }),
				spread(r.Samples, func(s sample) float64 { return s.Start.CPU }),
				spread(r.Samples, func(s sample) float64 { return s.Start.Peak }), "–",
			},
		}
}
