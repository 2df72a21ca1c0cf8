package result

import "github.com/cachenode/cachenode-operator/test/lab"

// Latencies are the quantiles of latencies, in milliseconds.
type Latencies struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50ms"`
	P99   float64 `json:"p99ms"`
	Max   float64 `json:"maxms"`
}

// PurgeURLs is the result of purges of single URLs.
type PurgeURLs struct {
	Rounds int `json:"rounds"`
	// Times is how many URLs were purged in a round, one after another.
	Times   int              `json:"times"`
	Samples []PurgeURLSample `json:"samples"`
}

// PurgeURLSample is the result of one round of one system.
type PurgeURLSample struct {
	System string `json:"system"`
	Round  int    `json:"round"`
	// Answered is the time until the call returned. Fresh is the time until all servers had returned a response that the
	// origin created after the start of the purge. Hits is the number of requests after the call that got an older
	// response.
	Answered Latencies `json:"answered"`
	Fresh    Latencies `json:"fresh"`
	Hits     int64     `json:"hits"`
}

// PurgeBulk is the result of purges of half of the objects.
type PurgeBulk struct {
	// Kind is tag or prefix.
	Kind    string `json:"kind"`
	Rounds  int    `json:"rounds"`
	Objects int    `json:"objects"`
	// Purged is how many of the objects were purged. Window is how long other requests were measured, in seconds.
	Purged  int               `json:"purged"`
	Window  float64           `json:"windowSeconds"`
	Samples []PurgeBulkSample `json:"samples"`
}

// PurgeBulkSample is the result of one round of one system.
type PurgeBulkSample struct {
	System string `json:"system"`
	Round  int    `json:"round"`
	// Applied is how long the purge took, in seconds.
	Applied float64 `json:"appliedSeconds"`
	// Checked is how many of the purged objects were requested afterwards, and Hits is the number of responses that were
	// older than the purge.
	Checked int   `json:"checked"`
	Hits    int64 `json:"hits"`
	// Before and During are the latencies of HITs for other objects at a fixed rate, in the seconds before the purge and
	// from its start on.
	Before Latencies `json:"before"`
	During Latencies `json:"during"`
	// MemoryBefore is the resident memory of the agent before the purge, and MemoryPeak its maximum until the end, in MiB;
	// 0 for systems without an agent.
	MemoryBefore float64 `json:"memoryBeforeMebibytes"`
	MemoryPeak   float64 `json:"memoryPeakMebibytes"`
}

// PurgeRate is the result of many purges a second.
type PurgeRate struct {
	// PerSecond is how many purges of one URL began each second, for Seconds. Each ended after Grace, in seconds. Every is
	// the time between two updates, in milliseconds.
	PerSecond int               `json:"perSecond"`
	Seconds   float64           `json:"seconds"`
	Grace     float64           `json:"graceSeconds"`
	Every     float64           `json:"everyMilliseconds"`
	Rounds    int               `json:"rounds"`
	Samples   []PurgeRateSample `json:"samples"`
}

// PurgeRateSample is the result of one round.
type PurgeRateSample struct {
	Round int `json:"round"`
	// Lag is the time between the moment at which a purge was due and the moment at which the agent had applied it.
	// LastLag is the lag of the last purge, in milliseconds. Updates is the number of updates in which the purges were
	// sent.
	Lag     Latencies `json:"lag"`
	LastLag float64   `json:"lastLagms"`
	Updates int       `json:"updates"`
	// CPU is the agent's processor time in seconds, and MemoryPeak its maximal resident memory in MiB.
	CPU        float64 `json:"cpuSeconds"`
	MemoryPeak float64 `json:"memoryPeakMebibytes"`
	// JournalBytes is the size of the journal at the end, as the operator counts it for the limit of the journal.
	// JournalEncoded is the size of the journal in the ConfigMap. Rules is the number of purges, and Open is the number
	// of purges without an end.
	JournalBytes   int `json:"journalBytes"`
	JournalEncoded int `json:"journalEncodedBytes"`
	Rules          int `json:"rules"`
	Open           int `json:"open"`
}

// PurgeCost is the result of the measurement of what the agent with its index costs nginx.
type PurgeCost struct {
	Rounds  int               `json:"rounds"`
	Seconds float64           `json:"seconds"`
	Samples []PurgeCostSample `json:"samples"`
	// IndexBytes is the size of the index files on both disks at the end, and Files is the number of files in the cache.
	IndexBytes int64 `json:"indexBytes"`
	Files      int64 `json:"files"`
}

// PurgeCostSample is one measurement.
type PurgeCostSample struct {
	// Agent is true if an agent kept the index. Load is stores (each request is a MISS) or hits.
	Agent   bool        `json:"agent"`
	Load    string      `json:"load"`
	Bytes   int         `json:"objectBytes"`
	Round   int         `json:"round"`
	Answers lab.Answers `json:"answers"`
	// Reads is the number of the disks' reads. CPU is the pod's processor time in milliseconds a request.
	Reads int64   `json:"reads"`
	CPU   float64 `json:"cpuMillisecondsPerRequest"`
	// CatchUp is how long the agent took after the load until its index was complete, in seconds.
	CatchUp float64 `json:"catchUpSeconds"`
}

// PurgeRebuild is the result of the measurement of new indexes.
type PurgeRebuild struct {
	Rounds int `json:"rounds"`
	Files  int `json:"files"`
	Disks  int `json:"disks"`
	// Bytes is the size of each file. MemoryLimit is GOMEMLIMIT.
	Bytes       int                  `json:"fileBytes"`
	MemoryLimit string               `json:"memoryLimit"`
	Samples     []PurgeRebuildSample `json:"samples"`
}

// PurgeRebuildSample is the result of one round: Rebuild builds the indexes, and Start opens the complete indexes.
type PurgeRebuildSample struct {
	Rebuild IndexRun `json:"rebuild"`
	Start   IndexRun `json:"start"`
	// IndexBytes is the size of the index files on all disks after the first run.
	IndexBytes int64 `json:"indexBytes"`
}

// IndexRun contains the time and the resources of a process that only completes indexes.
type IndexRun struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpuSeconds"`
	// Peak is the maximal resident memory in MiB.
	Peak float64 `json:"peakMebibytes"`
}
