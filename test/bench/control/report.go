package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/record"
)

// report prints the table. If there is a folder for them, it also writes the result and the chart.
func report(w io.Writer, subjects []subject, samples map[string][]sample, o options) error {
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
	_, _ = fmt.Fprintf(w, "\n%d objects each, by each operator's defaults (tsuru's client allows itself 20 requests "+
		"a second); medians of %d rounds, least to greatest in brackets\n", o.count, o.rounds)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, s := range subjects {
		_, _ = fmt.Fprintf(table, "\t%s\t", s.name)
	}
	_, _ = fmt.Fprintln(table)
	for _, row := range rows {
		for _, s := range subjects {
			v := result.Values(samples[s.name], row.value)
			_, _ = fmt.Fprintf(table, "%.2f\t(%.2f-%.2f)\t", result.Median(v), slices.Min(v), slices.Max(v))
		}
		_, _ = fmt.Fprintf(table, "%s\t\n", row.name)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, s := range subjects {
		writes := samples[s.name][0].Calls.Writes
		_, _ = fmt.Fprintf(w, "%s wrote:", s.name)
		for _, kind := range slices.Sorted(maps.Keys(writes)) {
			_, _ = fmt.Fprintf(w, " %d %s,", writes[kind], kind)
		}
		_, _ = fmt.Fprintln(w)
	}
	if o.out == "" {
		return nil
	}
	return write(subjects, samples, o)
}

func write(subjects []subject, samples map[string][]sample, o options) error {
	document := map[string]any{"count": o.count, "rounds": o.rounds, "samples": samples}
	if err := record.Write(o.out, "control", document); err != nil {
		return err
	}
	var bars []result.Bar
	for _, s := range subjects {
		seconds := result.Values(samples[s.name], func(s sample) float64 { return s.Converged })
		bars = append(bars, result.Bar{Name: s.name, Values: seconds})
	}
	title := fmt.Sprintf("%d objects, all new (tsuru allows itself 20 requests a second)", o.count)
	return result.Bars(filepath.Join(o.out, "control.svg"), title, "seconds to the last write", bars)
}
