package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
)

// result is what is written as JSON.
type result struct {
	Case    string            `json:"case"`
	Memory  int64             `json:"memoryMebibytes"`
	Disks   string            `json:"disks"`
	Rounds  int               `json:"rounds"`
	Seconds float64           `json:"seconds"`
	Servers map[string]string `json:"servers"`
	// Samples are those of each server, in order.
	Samples map[string][]sample `json:"samples"`
}

// median of a value over the samples, with the least and the greatest.
func median(samples []sample, value func(sample) float64) (middle, least, most float64) {
	var values []float64
	for _, s := range samples {
		values = append(values, value(s))
	}
	slices.Sort(values)
	return values[len(values)/2], values[0], values[len(values)-1]
}

// report prints the table and, if out is a folder, writes result and chart.
func report(w io.Writer, b bench, rounds int, out string) error {
	_, _ = fmt.Fprintf(w, "\n%s: %d objects of %d KiB, %s, %d MiB of memory each; medians of %d rounds of %s, least to greatest in brackets\n",
		b.name, b.count, b.size>>10, b.speed, b.memory, rounds, b.duration)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(table, "server\t")
	for _, l := range b.loads {
		_, _ = fmt.Fprintf(table, "%s requests/s\t\tp50 ms\tp99 ms\t", l.Name)
	}
	_, _ = fmt.Fprintln(table, "reads a hit\tms CPU a request\tMiB\torigin\t")
	r := result{
		Case: b.name, Memory: b.memory, Disks: b.speed.String(), Rounds: rounds, Seconds: b.duration.Seconds(),
		Servers: map[string]string{}, Samples: map[string][]sample{},
	}
	for _, running := range b.running {
		name := running.server.String()
		r.Servers[name], r.Samples[name] = running.server.About(), running.samples
		middle := func(value func(sample) float64) float64 { m, _, _ := median(running.samples, value); return m }
		_, _ = fmt.Fprintf(table, "%s\t", name)
		for i := range b.loads {
			m, least, most := median(running.samples, func(s sample) float64 { return s.Loads[i].PerSecond })
			_, _ = fmt.Fprintf(table, "%.1f\t(%.0f-%.0f)\t%.1f\t%.1f\t", m, least, most,
				middle(func(s sample) float64 { return s.Loads[i].P50 }), middle(func(s sample) float64 { return s.Loads[i].P99 }))
		}
		_, _ = fmt.Fprintf(table, "%.2f\t%.3f\t%.0f\t%.0f\t\n", middle(func(s sample) float64 { return s.ReadsPerHit }),
			middle(func(s sample) float64 { return s.CPU }), middle(func(s sample) float64 { return float64(s.Memory) }),
			middle(func(s sample) float64 { return float64(s.Origin) }))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, running := range b.running {
		_, _ = fmt.Fprintf(w, "%s: %s\n", running.server, running.server.About())
	}
	if out == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, b.name+".json"), append(text, '\n'), 0o644)
}
