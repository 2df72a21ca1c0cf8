package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/test/record"
)

// soakTable returns the conditions and the table of the soak test of purges.
func soakTable(s record.Soak) (string, [][]string) {
	each := func(prefix string, numbers map[string]int) (lines [][]string) {
		for _, name := range slices.Sorted(maps.Keys(numbers)) {
			lines = append(lines, []string{prefix + strings.ReplaceAll(name, "urls", "URLs"), thousands(float64(numbers[name]))})
		}
		return lines
	}
	count := func(n int64) string { return thousands(float64(n)) }
	all := 0
	for _, n := range s.Purges {
		all += n
	}
	lines := slices.Concat(
		[][]string{{"what", "how many"}, {"purges, one in four of them soft", count(int64(all))}},
		each("– by ", s.Purges),
		each("fault: ", s.Faults),
		[][]string{
			{"responses", count(s.Requests)},
			{"– of which HITs", count(s.Hits)},
			{"**responses older than a purge that had settled before the request began**", "**" + count(s.Old) + "**"},
			{"responses older than a purge that was Applied and had not settled", count(s.Late)},
			{"seconds from a CachePurge's creation until it was Applied, median", short(s.P50)},
			{"– seconds within which 99% were Applied", short(s.P99)},
			{"– longest, seconds", short(s.Longest)},
		})
	return fmt.Sprintf("The test ran once, for %.0f minutes, with three pods", s.Seconds/60), lines
}
