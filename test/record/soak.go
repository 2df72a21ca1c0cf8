package record

// Soak is what the soak of purges found (test/e2e). Times are in seconds.
type Soak struct {
	Seconds float64 `json:"seconds"`
	// Requests are those that were answered, of which Hits were HITs.
	Requests int64 `json:"requests"`
	Hits     int64 `json:"hits"`
	// Purges are the numbers of purges by what they name, and Faults how often each fault came.
	Purges map[string]int `json:"purges"`
	Faults map[string]int `json:"faults"`
	// Old are bodies from before a purge that had settled before the request began. Late are those from before a purge
	// that was applied and had not settled.
	Old  int64 `json:"old"`
	Late int64 `json:"late"`
	// P50, P99 and Longest are the times from the creation of a CachePurge until it was applied.
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Longest float64 `json:"longest"`
}
