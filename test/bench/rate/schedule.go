package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cachenode/cachenode-operator/test/lab"
)

// schedule defines the times at which requests are due.
type schedule struct {
	// rate is the number of requests per second. connections is the maximum number of requests that are in progress at the
	// same time.
	rate        float64
	connections int
	duration    time.Duration
}

// run sends all requests of the schedule, and waits for the last answer. It calls connect once for each connection.
// connect returns a function that sends request number n, and returns the length of the response's body in bytes.
func (s schedule) run(connect func() func(n int64) (int64, error)) lab.Answers {
	total := int64(s.rate * s.duration.Seconds())
	var next, bytes, failed atomic.Int64
	histograms := make([]*hdrhistogram.Histogram, s.connections)
	start := time.Now()
	var group sync.WaitGroup
	for i := range histograms {
		histograms[i] = hdrhistogram.New(1, time.Minute.Microseconds(), 3)
		group.Go(func() {
			do := connect()
			for n := next.Add(1) - 1; n < total; n = next.Add(1) - 1 {
				due := start.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
				time.Sleep(time.Until(due))
				size, err := do(n)
				if err != nil {
					failed.Add(1)
				}
				bytes.Add(size)
				_ = histograms[i].RecordValue(min(time.Since(due), time.Minute).Microseconds()) // never fails
			}
		})
	}
	group.Wait()
	all := histograms[0]
	for _, h := range histograms[1:] {
		all.Merge(h)
	}
	const milli = 1000.0
	return lab.Answers{
		PerSecond: float64(total) / time.Since(start).Seconds(), Requests: total, Bytes: bytes.Load(), Errors: failed.Load(),
		P50: float64(all.ValueAtQuantile(50)) / milli, P99: float64(all.ValueAtQuantile(99)) / milli,
		Max: float64(all.Max()) / milli, Mean: all.Mean() / milli, Deviation: all.StdDev() / milli,
	}
}
