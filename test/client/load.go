package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cachenode/cachenode-operator/test/client/report"
)

// load describes a steady load. Each worker fetches one object after another.
type load struct {
	paths   []string
	workers int
	rate    int // requests per second of all workers together; 0 means no limit
}

// run fetches objects until ctx ends. The channel contains the results, and is closed after the last request has
// ended.
func (l load) run(ctx context.Context, fetcher func() *fetcher) <-chan timed {
	for _, path := range l.paths {
		_, _ = sumOf(path) // so that no worker waits for a sum; an error appears again in the request for path
	}
	results := make(chan timed, 1024)
	begun := time.Now()
	var ended atomic.Int64
	var group sync.WaitGroup
	for i := range l.workers {
		group.Go(func() {
			f := fetcher()
			if l.rate > 0 { // the workers start one after another
				time.Sleep(time.Duration(i) * time.Second / time.Duration(l.rate))
			}
			for ctx.Err() == nil {
				next := time.Now()
				results <- timed{f.fetch(l.paths[rand.IntN(len(l.paths))]), time.Since(begun)}
				if n := ended.Add(1); n == 1 || n%report.Every == 0 {
					fmt.Fprintf(os.Stderr, report.Progress, n)
				}
				if l.rate > 0 {
					pause := time.Duration(l.workers) * time.Second / time.Duration(l.rate)
					time.Sleep(time.Until(next.Add(pause)))
				}
			}
		})
	}
	go func() { group.Wait(); close(results) }()
	return results
}

// timed is a result with the time at which it arrived, measured from the start of the load.
type timed struct {
	report.Result
	at time.Duration
}

func sumUp(results <-chan timed) report.Summary {
	s := report.Summary{Cache: map[string]int{}, Pods: map[string]int{}}
	var times []float64
	var windows [][]float64
	for r := range results {
		window := int(r.at / (report.Window * time.Second))
		for len(windows) <= window {
			windows = append(windows, nil)
		}
		windows[window] = append(windows[window], r.Milliseconds)
		s.Requests++
		s.Cache[r.Cache]++
		s.Pods[r.Pod]++
		times = append(times, r.Milliseconds)
		if r.Error != "" {
			s.Failed++
			if len(s.Errors) < 10 {
				s.Errors = append(s.Errors, r.at.Round(time.Millisecond).String()+" "+r.Path+": "+r.Error)
			}
		}
	}
	s.P50, s.P99, s.Max = quantile(times, .5), quantile(times, .99), quantile(times, 1)
	for _, w := range windows {
		s.Windows = append(s.Windows, quantile(w, .99))
	}
	return s
}

// quantile returns the time within which the given share of the requests ended; 0 if there were no requests. It changes
// the order of times.
func quantile(times []float64, share float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(int(float64(len(times))*share), len(times)-1)]
}
