// Command shard measures what sharding by a plan costs and brings: how many keys move when disks come, go or change, against
// the least possible and against what people write by hand; how even the shares are; and what the ranges of split_clients
// cost a request of a real nginx. It prints tables and writes shard.json and shard.svg. The second part needs Linux and root.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cachenode/cachenode-operator/test/bench/chart"
)

type options struct {
	sets, keys, rounds int
	duration           time.Duration
	out                string
}

// result is what is written as JSON.
type result struct {
	Movement []movement           `json:"movement"`
	Balance  []balance            `json:"balance"`
	Cost     map[string][]float64 `json:"requestsPerSecond"`
	Ranges   map[string]int       `json:"ranges"`
}

func main() {
	var o options
	flag.IntVar(&o.sets, "sets", 300, "how many random sets of disks")
	flag.IntVar(&o.keys, "keys", 20000, "how many keys of each set")
	flag.IntVar(&o.rounds, "rounds", 5, "how often the cost is measured")
	flag.DurationVar(&o.duration, "duration", 3*time.Second, "how long a measurement of the cost takes")
	flag.StringVar(&o.out, "out", "", "a folder for the result as JSON and SVG")
	flag.Parse()
	if err := run(os.Stdout, o); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, o options) error {
	r := result{Movement: move(o.sets, o.keys), Balance: spread(o.sets)}
	printMovement(w, r, o)
	var err error
	if r.Cost, r.Ranges, err = cost(o.rounds, o.duration); err != nil {
		return err
	}
	printCost(w, r, o)
	if o.out == "" {
		return nil
	}
	return write(r, o.out)
}

func printMovement(w io.Writer, r result, o options) {
	_, _ = fmt.Fprintf(w, "keys that move, by times of the least possible; %d random sets of 2 to 16 disks with weights of 1 to 10, %d keys each\n", o.sets, o.keys)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "\tplan\tpercentages by hand\tmodulo\tleast possible\t")
	for _, m := range r.Movement {
		_, _ = fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%.1f%%\t\n", m.Change, m.Times["plan"], m.Times["percentages"], m.Times["modulo"], m.Least)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(w, "\na disk's keys against its weight: the worst disk of each set, in percent, in the median and at worst")
	for _, b := range r.Balance {
		_, _ = fmt.Fprintf(w, "  %s: %.2f, %.2f\n", b.Way, b.Median, b.Worst)
	}
}

func printCost(w io.Writer, r result, o options) {
	_, _ = fmt.Fprintf(w, "\nrequests a second of one nginx worker that answers with the disk of a random path; medians of %d rounds of %s\n", o.rounds, o.duration)
	for _, way := range ways {
		v := r.Cost[way]
		_, _ = fmt.Fprintf(w, "  %-10s %6d ranges %9.0f (%.0f-%.0f) %.3f\n", way, r.Ranges[way], chart.Median(v), slices.Min(v), slices.Max(v),
			chart.Median(v)/chart.Median(r.Cost[ways[0]]))
	}
}

func write(r result, out string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "shard.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	var bars []chart.Bar
	for _, m := range r.Movement {
		for _, way := range []string{"plan", "percentages", "modulo"} {
			bars = append(bars, chart.Bar{Name: strings.Fields(m.Change)[0] + "\n" + way, Values: []float64{m.Times[way]}})
		}
	}
	return chart.Bars(filepath.Join(out, "shard.svg"), "Keys that move when a disk is added, removed, or gets another weight", "times the least possible", bars)
}
