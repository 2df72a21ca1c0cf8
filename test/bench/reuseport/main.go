// Command reuseport repeats the experiment of "Socket Sharding in NGINX Release 1.9.1": one listening socket with
// accept_mutex on, one with accept_mutex off, and a socket for each worker (reuseport). It prints requests, latency and
// its standard deviation, and how evenly the workers share the work. It writes reuseport.json and reuseport.svg. It
// needs Linux and root.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
	"github.com/cachenode/cachenode-operator/test/record"
)

type options struct {
	rounds, workers, connections int
	duration                     time.Duration
	out                          string
}

// way is a way to distribute connections to the workers.
type way struct{ name, mutex, listen string }

var ways = []way{
	{"accept_mutex on", "on", ""},
	{"accept_mutex off", "off", ""},
	{"reuseport", "off", " reuseport"},
}

// sample is one measurement.
type sample struct {
	lab.Answers
	// CPU is the workers' processor time per request, in microseconds.
	CPU float64 `json:"cpuMicrosecondsPerRequest"`
	// Busiest is the share of the busiest worker in the workers' processor time, in percent.
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
	dir, err := lab.Recipe("hack/nginx-root")
	if err != nil {
		return nil, err
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
		text := fmt.Sprintf(`daemon off; pid /tmp/nginx.pid; worker_processes %d;
events { accept_mutex %s; }
http { access_log off; keepalive_requests 1000000; server { listen %d%s; `+
			`location / { return 200 "OK"; } } }`, o.workers, w.mutex, lab.Port, w.listen)
		site, server, err := l.Nginx(fmt.Sprintf("way%d", i), dir, text)
		if err != nil {
			return nil, err
		}
		servers[w.name], sites[w.name] = server, site
	}
	samples = map[string][]sample{}
	load := lab.One("ok", o.connections, "/")
	for round := range o.rounds {
		for i := range ways {
			w := ways[(i+round)%len(ways)]
			before, err := servers[w.name].Workers()
			if err != nil {
				return nil, err
			}
			answers, err := l.Ask(sites[w.name].URL(), o.duration, load)
			if err != nil {
				return nil, err
			}
			after, err := servers[w.name].Workers()
			if err != nil {
				return nil, err
			}
			if answers[0].Errors > 0 || answers[0].Requests == 0 || len(before) != o.workers {
				return nil, fmt.Errorf("%s: %d of %d requests failed, %d workers",
					w.name, answers[0].Errors, answers[0].Requests, len(before))
			}
			sum, most := lab.Used(before, after)
			samples[w.name] = append(samples[w.name], sample{
				Answers: answers[0], CPU: float64(sum.Microseconds()) / float64(answers[0].Requests),
				Busiest: 100 * float64(most) / float64(max(sum, 1)),
			})
		}
	}
	return samples, nil
}

func report(w io.Writer, samples map[string][]sample, o options) error {
	_, _ = fmt.Fprintf(w, "%d workers, %d connections that last, a reply of \"OK\"; "+
		"medians of %d rounds of %s, least to greatest in brackets\n",
		o.workers, o.connections, o.rounds, o.duration)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "\trequests/s\t\tmean ms\tdeviation ms\tp99 ms\tµs CPU a request\tbusiest worker\t")
	var bars []result.Bar
	for _, way := range ways {
		of := func(figure func(sample) float64) []float64 { return result.Values(samples[way.name], figure) }
		rates := of(func(s sample) float64 { return s.PerSecond })
		middle := func(figure func(sample) float64) float64 { return result.Median(of(figure)) }
		_, _ = fmt.Fprintf(table, "%s\t%.0f\t(%.0f-%.0f)\t%.2f\t%.2f\t%.2f\t%.1f\t%.0f%%\t\n",
			way.name, result.Median(rates), slices.Min(rates), slices.Max(rates),
			middle(func(s sample) float64 { return s.Mean }), middle(func(s sample) float64 { return s.Deviation }),
			middle(func(s sample) float64 { return s.P99 }), middle(func(s sample) float64 { return s.CPU }),
			middle(func(s sample) float64 { return s.Busiest }))
		bars = append(bars, result.Bar{Name: way.name, Values: rates})
	}
	if err := table.Flush(); err != nil || o.out == "" {
		return err
	}
	if err := record.Write(o.out, "reuseport", samples); err != nil {
		return err
	}
	return result.Bars(filepath.Join(o.out, "reuseport.svg"), "A reply of OK", "requests a second", bars)
}
