// Command shard measures sharding by a plan. It measures how many keys move when disks are added, removed or get other
// weights. It compares this number with the minimum and with configurations written by hand. It also measures how even
// the shares are. In a real nginx, it measures how much processor time a request needs for the ranges of split_clients.
// It prints tables and writes shard.json and shard.svg. The measurement of nginx needs Linux and root.
package main

import (
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

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/record"
)

type options struct {
	sets, keys, rounds int
	duration           time.Duration
	out                string
}

// measurement contains the results that are written as JSON.
type measurement struct {
	Movement []movement         `json:"movement"`
	Balance  []balance          `json:"balance"`
	Cost     map[string][]price `json:"cost"`
	Ranges   map[string]int     `json:"ranges"`
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
	r := measurement{Movement: move(o.sets, o.keys), Balance: spread(o.sets)}
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

func printMovement(w io.Writer, r measurement, o options) {
	_, _ = fmt.Fprintf(w, "keys that move, by times of the minimum; "+
		"%d random sets of 2 to 16 disks with weights of 1 to 10, %d keys each\n", o.sets, o.keys)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "\tplan\tpercentages by hand\tmodulo\tleast possible\t")
	for _, m := range r.Movement {
		_, _ = fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%.1f%%\t\n",
			m.Change, m.Times["plan"], m.Times["percentages"], m.Times["modulo"], m.Least)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(w, "\na disk's keys against its weight: "+
		"the worst disk of each set, in percent, in the median and at worst")
	for _, b := range r.Balance {
		_, _ = fmt.Fprintf(w, "  %s: %.2f, %.2f\n", b.Way, b.Median, b.Worst)
	}
}

func printCost(w io.Writer, r measurement, o options) {
	_, _ = fmt.Fprintf(w, "\nrequests per second of one nginx worker that answers with the disk of a random path; "+
		"medians of %d rounds of %s\n", o.rounds, o.duration)
	for _, way := range ways {
		rates := result.Values(r.Cost[way], func(p price) float64 { return p.PerSecond })
		cpu := result.Values(r.Cost[way], func(p price) float64 { return p.CPU })
		_, _ = fmt.Fprintf(w, "  %-10s %6d ranges %9.0f (%.0f-%.0f), %.2f µs of the worker a request\n",
			way, r.Ranges[way], result.Median(rates), slices.Min(rates), slices.Max(rates), result.Median(cpu))
	}
}

func write(r measurement, out string) error {
	if err := record.Write(out, "shard", r); err != nil {
		return err
	}
	var bars []result.Bar
	for _, m := range r.Movement {
		for _, way := range []string{"plan", "percentages", "modulo"} {
			name := strings.Fields(m.Change)[0] + "\n" + strings.Replace(way, "percentages", "by hand", 1)
			bars = append(bars, result.Bar{Name: name, Values: []float64{m.Times[way]}})
		}
	}
	return result.Bars(filepath.Join(out, "shard.svg"),
		"Keys that move when a disk is added, removed, or gets another weight", "times the least possible", bars)
}
