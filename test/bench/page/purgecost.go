package main

import (
	"fmt"

	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// costTable returns the conditions and the table for the cost of the agent. It compares two pods, one with an agent and
// one without. Each ratio divides two figures of the same round.
func costTable(c result.PurgeCost) (string, [][]string) {
	type sample = result.PurgeCostSample
	lines := [][]string{{
		"load", "objects", "requests/s, with the agent", "requests/s, without", "with / without",
		"ms CPU, with", "ms CPU, without",
		"reads a request, with", "reads a request, without", "index complete after, s",
	}}
	seen := map[string]bool{}
	for _, first := range c.Samples {
		load := fmt.Sprint(first.Load, first.Bytes)
		if seen[load] {
			continue
		}
		seen[load] = true
		of := func(agent bool) []sample {
			return where(c.Samples, func(s sample) bool {
				return s.Load == first.Load && s.Bytes == first.Bytes && s.Agent == agent
			})
		}
		with, without := of(true), of(false)
		rate := func(s sample) float64 { return s.Answers.PerSecond }
		reads := func(s sample) float64 { return float64(s.Reads) / float64(s.Answers.Requests) }
		cpu := func(samples []sample) string {
			return fmt.Sprintf("%.3f", result.Median(result.Values(samples, func(s sample) float64 { return s.CPU })))
		}
		ratio := result.Paired(result.Values(with, rate), result.Values(without, rate))
		lines = append(lines, []string{
			first.Load, bytes(int64(first.Bytes)), spread(with, rate), spread(without, rate), ratioText(ratio, true),
			cpu(with), cpu(without), spread(with, reads), spread(without, reads),
			spread(with, func(s sample) float64 { return s.CatchUp }),
		})
	}
	return fmt.Sprintf("The benchmark ran %s of %g s.\nAt the end, the index took %.0f bytes for each of %s files",
		inRounds(c.Rounds), c.Seconds, float64(c.IndexBytes)/float64(max(c.Files, 1)), thousands(float64(c.Files))), lines
}
