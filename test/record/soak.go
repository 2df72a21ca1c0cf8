package record

// Soak contains the results of the long test of purges in test/e2e. Times are in seconds.
type Soak struct {
	Seconds float64 `json:"seconds"`
	// Requests is the number of requests that were answered. Hits is the number of HITs among them.
	Requests int64 `json:"requests"`
	Hits     int64 `json:"hits"`
	// Purges maps the way in which a purge selects objects, such as tags, to the number of such purges. Faults maps each
	// fault to the number of times that it occurred.
	Purges map[string]int `json:"purges"`
	Faults map[string]int `json:"faults"`
	// Old is the number of responses that were older than a purge that had settled before the request began. Late is the
	// number of responses that were older than a purge that was Applied, but had not settled.
	Old  int64 `json:"old"`
	Late int64 `json:"late"`
	// P50, P99 and Longest are the median, the 99% quantile and the maximum of the time from the creation of a
	// CachePurge until it was Applied.
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Longest float64 `json:"longest"`
}
