package top

import (
	"time"

	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
)

// summary is the verb's output for programs. Rates are per second; ratios are from 0 to 1.
type summary struct {
	Seconds float64       `json:"seconds"`
	Disks   []diskSummary `json:"disks"`
	// Pods describes the requests between pods that share keys.
	Pods []podSummary `json:"pods,omitempty"`
}

// diskSummary contains the rates of a disk. Requests and Bytes are estimates from the sample.
type diskSummary struct {
	// Pod is left out if the numbers are the sums of all pods.
	Pod      string  `json:"pod,omitempty"`
	Disk     string  `json:"disk"`
	Requests float64 `json:"requests"`
	// Samples is the number of requests that were counted. HitRatio is left out if this number is too small.
	Samples   float64  `json:"samples"`
	HitRatio  *float64 `json:"hitRatio,omitempty"`
	Bytes     float64  `json:"bytes"`
	Overflows float64  `json:"overflows"`
	UsedBytes float64  `json:"usedBytes"`
	SizeBytes float64  `json:"sizeBytes"`
	// FirstByte50 and FirstByte99 are the times within which 50% and 99% of the requests got their first byte; left out
	// if there were no requests.
	FirstByte50 *latency `json:"firstByte50,omitempty"`
	FirstByte99 *latency `json:"firstByte99,omitempty"`
}

// latency is the time within which a share of the requests got their first byte. Seconds is a bound of the metrics'
// histogram. If Above is true, Seconds is the highest bound, and the time is longer than that.
type latency struct {
	Seconds float64 `json:"seconds"`
	Above   bool    `json:"above,omitempty"`
}

// podSummary contains the requests of a pod to other pods, and what the pod filled. ToOwners, ToStandIns, Unanswered
// and HopBytes are estimates from the sample.
type podSummary struct {
	Pod        string  `json:"pod"`
	Share      float64 `json:"share"`
	ToOwners   float64 `json:"toOwners"`
	ToStandIns float64 `json:"toStandIns"`
	Unanswered float64 `json:"unanswered"`
	HopBytes   float64 `json:"hopBytes"`
	Filled     float64 `json:"filled"`
	Fetched    float64 `json:"fetched"`
}

func summarize(disks []rate, routing []routingRate, elapsed time.Duration) summary {
	s := summary{Seconds: elapsed.Seconds(), Disks: []diskSummary{}}
	for _, r := range disks {
		d := diskSummary{
			Pod: r.pod, Disk: r.disk, Requests: r.requests, Samples: r.sampled, Bytes: r.bytes, Overflows: r.overflows,
			UsedBytes: r.used, SizeBytes: r.size, FirstByte50: r.latency(.5), FirstByte99: r.latency(.99),
		}
		if podmetrics.IsEnough(r.sampled, r.sampling) {
			d.HitRatio = new(r.sampledHits / r.sampled)
		}
		s.Disks = append(s.Disks, d)
	}
	for _, r := range routing {
		s.Pods = append(s.Pods, podSummary{
			Pod: r.pod, Share: r.share, ToOwners: r.peer, ToStandIns: r.standIn, Unanswered: r.unanswered,
			HopBytes: r.bytes, Filled: r.filled, Fetched: r.fetched,
		})
	}
	return s
}

func (r rate) latency(share float64) *latency {
	bound, isAbove, ok := r.bound(share)
	if !ok {
		return nil
	}
	return &latency{bound, isAbove}
}
