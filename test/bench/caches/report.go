package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
	"github.com/cachenode/cachenode-operator/test/record"
)

// report prints the table. If out names a folder, report also writes the result to this folder.
func report(w io.Writer, b bench, rounds int, out string) error {
	state := cmp.Or(b.begins, emptyPages)
	_, _ = fmt.Fprintf(w, "\n%s: %d objects of %d KiB, %s, %d MiB of memory each, %s; "+
		"medians of %d rounds of %s, least to greatest in brackets\n",
		b.name, b.count, b.size>>10, b.disksAbout(), b.memory, state, rounds, b.duration)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(table, "server\t")
	for _, l := range b.loads {
		_, _ = fmt.Fprintf(table, "%s requests/s\t\tp50 ms\tp99 ms\t", l.Name)
	}
	_, _ = fmt.Fprintln(table, "reads a hit\tKB written a request\tms CPU a request\tMiB\torigin\t")
	r := result.Caches{
		Case: b.name, Memory: b.memory, Disks: b.disksAbout(), Begins: string(state),
		Rounds: rounds, Seconds: b.duration.Seconds(),
		WarmUp: warmUpTime.Seconds(), Objects: b.count, Bytes: b.size,
		Connections: map[string]int{}, Servers: map[string]string{}, Samples: map[string][]result.Sample{},
	}
	for _, l := range b.loads {
		r.Connections[l.Name] = l.Connections
		r.Loads = append(r.Loads, l.Name)
	}
	for _, running := range b.running {
		name := running.server.String()
		r.Servers[name], r.Samples[name] = running.server.About(), running.samples
		middle := func(value func(result.Sample) float64) float64 {
			return result.Median(result.Values(running.samples, value))
		}
		_, _ = fmt.Fprintf(table, "%s\t", name)
		for i := range b.loads {
			rates := result.Values(running.samples, func(s result.Sample) float64 { return s.Loads[i].PerSecond })
			_, _ = fmt.Fprintf(table, "%.1f\t(%.0f-%.0f)\t%s\t%s\t", result.Median(rates), slices.Min(rates), slices.Max(rates),
				answered(running.samples, i, "%.1f", func(s result.Sample) float64 { return s.Loads[i].P50 }),
				answered(running.samples, i, "%.1f", func(s result.Sample) float64 { return s.Loads[i].P99 }))
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%.0f\t%.0f\t\n",
			answered(running.samples, 0, "%.2f", func(s result.Sample) float64 { return s.ReadsPerHit }),
			answered(running.samples, 0, "%.1f", func(s result.Sample) float64 { return s.Written / 1e3 }),
			answered(running.samples, 0, "%.3f", func(s result.Sample) float64 { return s.CPU }),
			middle(func(s result.Sample) float64 { return float64(s.Memory) }),
			middle(func(s result.Sample) float64 { return float64(s.Origin) }))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if err := fixedRates(w, b); err != nil {
		return err
	}
	ratios(w, b)
	for _, running := range b.running {
		_, _ = fmt.Fprintf(w, "%s: %s\n", running.server, running.server.About())
		if slices.ContainsFunc(running.samples, func(s result.Sample) bool { return s.Short }) {
			_, _ = fmt.Fprintf(w, "%s: too short: in some round fewer than %d answers a connection, "+
				"so latencies end and reads count beyond the measurement\n", running.server, enough)
		}
	}
	if out == "" {
		return nil
	}
	return record.Write(out, b.name, r)
}

// answered returns the median of a figure over the rounds in which the server answered a load, as a text with the given
// format. If the server answered the load in at most half of the rounds, it returns "no answer".
func answered(samples []result.Sample, load int, format string, figure func(result.Sample) float64) string {
	median, ok := result.Answered(samples, load, figure)
	if !ok {
		return "no answer"
	}
	return fmt.Sprintf(format, median)
}

// ratios prints the ratios of the operator's configuration to each other server. A ratio is printed as the median,
// the lowest and the highest ratio of the rounds. If the operator's configuration was not measured, the first server
// takes its place.
func ratios(w io.Writer, b bench) {
	base := b.running[max(0, slices.IndexFunc(b.running, func(r running) bool { return r.server.String() == ours.name }))]
	for _, r := range b.running {
		if r.server.String() == base.server.String() {
			continue
		}
		_, _ = fmt.Fprintf(w, "%s against %s:", base.server, r.server)
		for i, l := range b.loads {
			rate := func(s result.Sample) float64 { return s.Loads[i].PerSecond }
			mean := func(s result.Sample) float64 { return s.Loads[i].Mean }
			_, _ = fmt.Fprintf(w, " %s %s times the requests, %s times the mean latency;", l.Name,
				result.Paired(result.Values(base.samples, rate), result.Values(r.samples, rate)),
				result.Paired(result.Values(base.samples, mean), result.Values(r.samples, mean)))
		}
		_, _ = fmt.Fprintln(w)
	}
	if b.reference != "" {
		_, _ = fmt.Fprintln(w, b.reference)
	}
}

// fixedRates prints the latencies at fixed rates.
func fixedRates(w io.Writer, b bench) error {
	if len(b.shares) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(table, "at a fixed rate\t")
	for _, share := range b.shares {
		for _, l := range b.loads {
			_, _ = fmt.Fprintf(table, "%s, %.0f%%\tp50 ms\tp99 ms\t", l.Name, share*100)
		}
	}
	_, _ = fmt.Fprintln(table)
	for _, r := range b.running {
		_, _ = fmt.Fprintf(table, "%s\t", r.server)
		for i := range b.shares {
			for j := range b.loads {
				middle := func(value func(lab.Answers) float64) float64 {
					figure := func(s result.Sample) float64 { return value(s.AtRate[i].Loads[j]) }
					return result.Median(result.Values(r.samples, figure))
				}
				_, _ = fmt.Fprintf(table, "%.1f\t%.1f\t%.1f\t", middle(func(a lab.Answers) float64 { return a.PerSecond }),
					middle(func(a lab.Answers) float64 { return a.P50 }), middle(func(a lab.Answers) float64 { return a.P99 }))
			}
		}
		_, _ = fmt.Fprintln(table)
	}
	return table.Flush()
}
