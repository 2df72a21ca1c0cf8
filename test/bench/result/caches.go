package result

import "github.com/cachenode/cachenode-operator/test/lab"

// Caches is the result of a case of the benchmark of caches.
type Caches struct {
	Case   string `json:"case"`
	Memory int64  `json:"memoryMebibytes"`
	Disks  string `json:"disks"`
	// Begins is the state of the memory at the beginning of each round.
	Begins string `json:"begins"`
	Rounds int    `json:"rounds"`
	// Seconds is the duration of a measurement. WarmUp is the duration of the load before the measurement, on disks of
	// the same speed. Both are in seconds.
	Seconds float64 `json:"seconds"`
	WarmUp  float64 `json:"warmUpSeconds"`
	// Objects is the number of objects in the cache, and Bytes is the size of each object. Connections maps the name of
	// a load to the number of its connections.
	Objects     int               `json:"objects"`
	Bytes       int64             `json:"objectBytes"`
	Connections map[string]int    `json:"connections"`
	Servers     map[string]string `json:"servers"`
	// Loads are the names of the loads, in the order of the samples' figures.
	Loads []string `json:"loads"`
	// Samples contains the samples of each server, in the order of the rounds.
	Samples map[string][]Sample `json:"samples"`
}

// Sample is one measurement of one server.
type Sample struct {
	// Loads contains the figures of each load, in the order of Caches.Loads.
	Loads []lab.Answers `json:"loads"`
	// ReadsPerHit is the number of reads from the disks, divided by the number of requests of the first load. Written is
	// the number of bytes written to the disks, divided by the number of requests of all loads; older results do not
	// contain it. CPU is the server's processor time in milliseconds, divided by the number of requests of all loads.
	ReadsPerHit float64 `json:"readsPerHit"`
	Written     float64 `json:"writtenBytesPerRequest,omitempty"`
	CPU         float64 `json:"cpuMillisecondsPerRequest"`
	// Memory is the memory of the server's cgroup at the end, in MiB. Origin is the number of requests to the origin.
	Memory int64 `json:"memoryMebibytes"`
	Origin int64 `json:"originRequests"`
	// Short is true if a load had fewer than three answers per connection.
	Short bool `json:"short,omitempty"`
	// AtRate contains the measurements at fixed rates. Each fixed rate is a share of the rates in Loads.
	AtRate []AtRate `json:"atRate,omitempty"`
}

// AtRate is a measurement at fixed rates, one rate for each load. Share is the fixed rate, divided by the rate that
// the same server served just before, without a fixed rate. Loads contains the figures of each load, in the order of
// Caches.Loads.
type AtRate struct {
	Share float64       `json:"share"`
	Loads []lab.Answers `json:"loads"`
}

// Answered returns the median of a figure over the samples in which a load was answered. ok is false if the load was
// answered in at most half of the samples.
func Answered(samples []Sample, load int, figure func(Sample) float64) (median float64, ok bool) {
	var all []float64
	for _, s := range samples {
		if s.Loads[load].Requests > 0 {
			all = append(all, figure(s))
		}
	}
	return Median(all), 2*len(all) > len(samples)
}
