package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/test/record"
)

// soakTable is what the soak of purges found.
func soakTable(s record.Soak) (string, [][]string) {
	each := func(numbers map[string]int) string {
		var list []string
		for _, name := range slices.Sorted(maps.Keys(numbers)) {
			list = append(list, fmt.Sprintf("%s: %s", name, thousands(float64(numbers[name]))))
		}
		return strings.Join(list, "; ")
	}
	count := func(n int64) string { return thousands(float64(n)) }
	all := 0
	for _, n := range s.Purges {
		all += n
	}
	return fmt.Sprintf("%.0f minutes, one run, three pods", s.Seconds/60), [][]string{
		{"what", "how many"},
		{"purges, one in four of them soft", count(int64(all))},
		{"– by what they name", each(s.Purges)},
		{"faults", each(s.Faults)},
		{"responses", count(s.Requests)},
		{"– of which HITs", count(s.Hits)},
		{"**older than a purge that had settled before the request began**", "**" + count(s.Old) + "**"},
		{"older than a purge that was Applied and had not settled", count(s.Late)},
		{
			"from the creation of a CachePurge to Applied: median, 99% within, longest",
			fmt.Sprintf("%s s, %s s, %s s", short(s.P50), short(s.P99), short(s.Longest)),
		},
	}
}
