package top

import (
	"time"

	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
)

// summary is what the verb says to programs. Rates are for each second; ratios are from 0 to 1.
type summary struct {
	Seconds float64       `json:"seconds"`
	Disks   []diskSummary `json:"disks"`
	// Pods say what pods that share keys ask of each other.
	Pods []podSummary `json:"pods,omitempty"`
}

// diskSummary is what a disk did. Requests and Bytes are estimates from the sample.
type diskSummary struct {
	// Pod is left out if the numbers are those of all pods.
	Pod      string  `json:"pod,omitempty"`
	Disk     string  `json:"disk"`
	Requests float64 `json:"requests"`
	// Samples is how many requests were counted. HitRatio is left out if that is too few.
	Samples   float64  `json:"samples"`
	HitRatio  *float64 `json:"hitRatio,omitempty"`
	Bytes     float64  `json:"bytes"`
	Overflows float64  `json:"overflows"`
	UsedBytes float64  `json:"usedBytes"`
	SizeBytes float64  `json:"sizeBytes"`
	// FirstByte50 and FirstByte99 are times within which half and 99% of the requests had their first byte; left out if
	// there were none.
	FirstByte50 *latency `json:"firstByte50,omitempty"`
	FirstByte99 *latency `json:"firstByte99,omitempty"`
}

// latency is a bound of the histogram. Above is true if the time is above the highest bound.
type latency struct {
	Seconds float64 `json:"seconds"`
	Above   bool    `json:"above,omitempty"`
}

// podSummary is what a pod asked of others, and what it filled. All but Filled and Fetched are estimates.
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
