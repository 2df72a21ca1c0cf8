package main

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// recorder collects latencies of up to an hour. It is safe for concurrent use.
type recorder struct {
	mutex     sync.Mutex
	histogram *hdrhistogram.Histogram
}

func newRecorder() *recorder {
	return &recorder{histogram: hdrhistogram.New(1, time.Hour.Microseconds(), 3)}
}

func (r *recorder) add(d time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	_ = r.histogram.RecordValue(min(d, time.Hour).Microseconds()) // never fails: the value is within the range
}

func (r *recorder) latencies() result.Latencies {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	at := func(quantile float64) float64 { return float64(r.histogram.ValueAtQuantile(quantile)) / 1000 }
	return result.Latencies{
		Count: r.histogram.TotalCount(), P50: at(50), P99: at(99), Max: float64(r.histogram.Max()) / 1000,
	}
}
