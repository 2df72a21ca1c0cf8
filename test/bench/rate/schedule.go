package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cachenode/cachenode-operator/test/lab"
)

// schedule says when requests are due.
type schedule struct {
	// rate is in requests a second. At most connections requests are under way at once.
	rate        float64
	connections int
	duration    time.Duration
}

// run makes all requests of the schedule and waits for the last answer. Each connection gets a function of its own from
// connect. The function makes request number n and returns the bytes of the body.
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
				_ = histograms[i].RecordValue(min(time.Since(due), time.Minute).Microseconds()) // within its range
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
