// Command reuseport repeats the experiment of "Socket Sharding in NGINX Release 1.9.1": one listening socket with
// accept_mutex on, with accept_mutex off, and a socket for each worker (reuseport). It prints requests, latency, its standard
// deviation and how even the work is over the workers, and writes reuseport.json and reuseport.svg. Needs Linux and root.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cachenode/cachenode-operator/test/bench/chart"
	"github.com/cachenode/cachenode-operator/test/bench/lab"
)

type options struct {
	rounds, workers, connections int
	duration                     time.Duration
	out                          string
}

// way of sharing connections out.
type way struct{ name, mutex, listen string }

var ways = []way{
	{"accept_mutex on", "on", ""},
	{"accept_mutex off", "off", ""},
	{"reuseport", "off", " reuseport"},
}

// sample is one measurement.
type sample struct {
	lab.Answers
	// Busiest is the part of the workers' processor time, in percent, that the busiest one had.
	Busiest float64 `json:"busiestPercent"`
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "how often each is measured; they take turns")
	flag.IntVar(&o.workers, "workers", 4, "nginx's workers")
	flag.IntVar(&o.connections, "connections", 64, "the clients' connections, which last")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "how long a measurement takes")
	flag.StringVar(&o.out, "out", "", "a folder for the result as JSON and SVG")
	flag.Parse()
	samples, err := measure(o)
	if err == nil {
		err = report(os.Stdout, samples, o)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func measure(o options) (samples map[string][]sample, err error) {
	recipe := exec.Command("hack/nginx-root")
	recipe.Stderr = os.Stderr
	dir, err := recipe.Output()
	if err != nil {
		return nil, fmt.Errorf("hack/nginx-root: %w (run it from the top folder)", err)
	}
	l, err := lab.New("")
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := l.Close(); err == nil {
			err = closeErr
		}
	}()
	servers, sites := map[string]*lab.Server{}, map[string]lab.Site{}
	for i, w := range ways {
		name := fmt.Sprintf("way%d", i)
		site, err := l.Site(name)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf(`daemon off; pid /tmp/nginx.pid; worker_processes %d;
events { accept_mutex %s; }
http { access_log off; keepalive_requests 1000000; server { listen %d%s; location / { return 200 "OK"; } } }`, o.workers, w.mutex, lab.Port, w.listen)
		root := lab.Root{Dir: strings.TrimSpace(string(dir)), Tmpfs: []string{"/tmp"}, Files: map[string]string{"/tmp/nginx.conf": text}}
		server, err := l.Start(name, site, nil, root, "nginx", "-c", "/tmp/nginx.conf", "-e", "stderr")
		if err != nil {
			return nil, err
		}
		if err := l.Await(site, server, lab.Port); err != nil {
			return nil, err
		}
		servers[w.name], sites[w.name] = server, site
	}
	samples = map[string][]sample{}
	load := lab.One("ok", o.connections, "/")
	for range o.rounds {
		for _, w := range ways {
			before, err := servers[w.name].Descendants("nginx: worker")
			if err != nil {
				return nil, err
			}
			answers, err := l.Ask(sites[w.name].URL(), o.duration, load)
			if err != nil {
				return nil, err
			}
			after, err := servers[w.name].Descendants("nginx: worker")
			if err != nil {
				return nil, err
			}
			if answers[0].Errors > 0 || len(before) != o.workers {
				return nil, fmt.Errorf("%s: %d requests failed, %d workers", w.name, answers[0].Errors, len(before))
			}
			samples[w.name] = append(samples[w.name], sample{Answers: answers[0], Busiest: busiest(before, after)})
		}
	}
	return samples, nil
}

// busiest is the greatest share, in percent, of the processor time that processes used between two looks.
func busiest(before, after map[int]time.Duration) float64 {
	var sum, most time.Duration
	for pid, used := range after {
		sum += used - before[pid]
		most = max(most, used-before[pid])
	}
	return 100 * float64(most) / float64(max(sum, 1))
}

func report(w io.Writer, samples map[string][]sample, o options) error {
	_, _ = fmt.Fprintf(w, "%d workers, %d connections that last, a reply of \"OK\"; medians of %d rounds of %s, least to greatest in brackets\n",
		o.workers, o.connections, o.rounds, o.duration)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "\trequests/s\t\tmean ms\tdeviation ms\tp99 ms\tbusiest worker\t")
	var bars []chart.Bar
	for _, way := range ways {
		of := func(value func(sample) float64) []float64 {
			var list []float64
			for _, s := range samples[way.name] {
				list = append(list, value(s))
			}
			return list
		}
		rates := of(func(s sample) float64 { return s.PerSecond })
		_, _ = fmt.Fprintf(table, "%s\t%.0f\t(%.0f-%.0f)\t%.2f\t%.2f\t%.2f\t%.0f%%\t\n", way.name, chart.Median(rates), slices.Min(rates), slices.Max(rates),
			chart.Median(of(func(s sample) float64 { return s.Mean })), chart.Median(of(func(s sample) float64 { return s.Deviation })),
			chart.Median(of(func(s sample) float64 { return s.P99 })), chart.Median(of(func(s sample) float64 { return s.Busiest })))
		bars = append(bars, chart.Bar{Name: way.name, Values: rates})
	}
	if err := table.Flush(); err != nil || o.out == "" {
		return err
	}
	text, err := json.MarshalIndent(samples, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "reuseport.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return chart.Bars(filepath.Join(o.out, "reuseport.svg"), "A reply of OK", "requests a second", bars)
}
