package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/cachenode/cachenode-operator/test/bench/chart"
	"github.com/cachenode/cachenode-operator/test/bench/lab"
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

// values of a sample's figure, one a round.
func values(samples []sample, value func(sample) float64) []float64 {
	var list []float64
	for _, s := range samples {
		list = append(list, value(s))
	}
	return list
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
		middle := func(value func(sample) float64) float64 { return chart.Median(values(running.samples, value)) }
		_, _ = fmt.Fprintf(table, "%s\t", name)
		for i := range b.loads {
			rates := values(running.samples, func(s sample) float64 { return s.Loads[i].PerSecond })
			_, _ = fmt.Fprintf(table, "%.1f\t(%.0f-%.0f)\t%.1f\t%.1f\t", chart.Median(rates), slices.Min(rates), slices.Max(rates),
				middle(func(s sample) float64 { return s.Loads[i].P50 }), middle(func(s sample) float64 { return s.Loads[i].P99 }))
		}
		_, _ = fmt.Fprintf(table, "%.2f\t%.3f\t%.0f\t%.0f\t\n", middle(func(s sample) float64 { return s.ReadsPerHit }),
			middle(func(s sample) float64 { return s.CPU }), middle(func(s sample) float64 { return float64(s.Memory) }),
			middle(func(s sample) float64 { return float64(s.Origin) }))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	ratios(w, b)
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
	if err := os.WriteFile(filepath.Join(out, b.name+".json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return draw(b, out)
}

// read is what report has written.
func read(file string) (r result, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// draw makes a chart of each load.
func draw(b bench, out string) error {
	for i, l := range b.loads {
		var bars []chart.Bar
		for _, r := range b.running {
			bars = append(bars, chart.Bar{Name: r.server.String(), Values: values(r.samples, func(s sample) float64 { return s.Loads[i].PerSecond })})
		}
		title := fmt.Sprintf("%s: %d objects of %d KiB, %s, %d MiB of memory", l.Name, b.count, b.size>>10, b.speed, b.memory)
		if err := chart.Bars(filepath.Join(out, b.name+"-"+l.Name+".svg"), title, "requests a second", bars); err != nil {
			return err
		}
	}
	return nil
}

// ratios compares all with the first.
func ratios(w io.Writer, b bench) {
	base := b.running[0]
	for _, r := range b.running[1:] {
		_, _ = fmt.Fprintf(w, "%s against %s:", r.server, base.server)
		for i, l := range b.loads {
			times := func(value func(lab.Answers) float64, of, by []sample) float64 {
				at := func(s sample) float64 { return value(s.Loads[i]) }
				return chart.Median(values(of, at)) / chart.Median(values(by, at))
			}
			_, _ = fmt.Fprintf(w, " %s %.2f times the requests, 1/%.2f of the mean latency;", l.Name,
				times(func(a lab.Answers) float64 { return a.PerSecond }, r.samples, base.samples),
				times(func(a lab.Answers) float64 { return a.Mean }, base.samples, r.samples))
		}
		_, _ = fmt.Fprintln(w)
	}
	if b.reference != "" {
		_, _ = fmt.Fprintln(w, b.reference)
	}
}
