package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/record"
)

// report prints the table. If o.out names a folder, report also writes the result to this folder.
func report(w io.Writer, samples []sample, o options) error {
	n := float64(o.count)
	rows := []struct {
		name  string
		value func(sample) float64
	}{
		{"seconds from a start to the last write", func(s sample) float64 { return s.Converged }},
		{"writes an object", func(s sample) float64 { return float64(s.Calls.Total) / n }},
		{"gets and lists an object", func(s sample) float64 { return float64(s.Calls.Reads) / n }},
		{"dry runs an object", func(s sample) float64 { return float64(s.Calls.DryRuns) / n }},
		{"CPU seconds until then", func(s sample) float64 { return s.CPU }},
		{"MiB resident, without objects", func(s sample) float64 { return s.Empty }},
		{"MiB resident, with all", func(s sample) float64 { return s.Memory }},
		{"writes while idle", func(s sample) float64 { return float64(s.Idle.Total) }},
		{"% of a CPU while idle", func(s sample) float64 { return s.IdleCPU }},
		{"seconds busy after a restart", func(s sample) float64 { return s.Restarted }},
		{"writes after a restart, an object", func(s sample) float64 { return float64(s.RestartCalls.Total) / n }},
		{"gets and lists after a restart", func(s sample) float64 { return float64(s.RestartCalls.Reads) }},
		{"seconds from an edit during a restart to its write", func(s sample) float64 { return s.Edited }},
		{"and how much longer it was busy", func(s sample) float64 { return s.EditedBusy }},
	}
	_, _ = fmt.Fprintf(w, "\n%d CacheNodes; medians of %d rounds, least to greatest in brackets\n", o.count, o.rounds)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		v := result.Values(samples, row.value)
		_, _ = fmt.Fprintf(table, "%.2f\t(%.2f-%.2f)\t%s\t\n", result.Median(v), slices.Min(v), slices.Max(v), row.name)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprint(w, "the operator wrote:")
	writes := samples[0].Calls.Writes
	for _, kind := range slices.Sorted(maps.Keys(writes)) {
		_, _ = fmt.Fprintf(w, " %d %s,", writes[kind], kind)
	}
	_, _ = fmt.Fprintln(w)
	if o.out == "" {
		return nil
	}
	document := map[string]any{"count": o.count, "rounds": o.rounds, "samples": map[string]any{"cachenode": samples}}
	return record.Write(o.out, "control", document)
}
