package result

import "github.com/cachenode/cachenode-operator/test/lab"

// Latencies contains quantiles of latencies, in milliseconds.
type Latencies struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50ms"`
	P99   float64 `json:"p99ms"`
	Max   float64 `json:"maxms"`
}

// PurgeURLs is the result of the benchmark that purges single URLs.
type PurgeURLs struct {
	Rounds int `json:"rounds"`
	// Times is the number of URLs that are purged in a round, one after another.
	Times   int              `json:"times"`
	Samples []PurgeURLSample `json:"samples"`
}

// PurgeURLSample is the result of one round of one system.
type PurgeURLSample struct {
	System string `json:"system"`
	Round  int    `json:"round"`
	// Answered is the time from the start of a purge until the call returns. Fresh is the time from the start of a purge
	// until all servers have returned a response that the origin created after this start. Hits is the number of older
	// responses that clients get after the call has returned.
	Answered Latencies `json:"answered"`
	Fresh    Latencies `json:"fresh"`
	Hits     int64     `json:"hits"`
}

// PurgeBulk is the result of the benchmark that purges half of the objects at once.
type PurgeBulk struct {
	// Kind is "tag" or "prefix".
	Kind    string `json:"kind"`
	Rounds  int    `json:"rounds"`
	Objects int    `json:"objects"`
	// Purged is the number of purged objects. Window is the duration, in seconds, of two measurements of requests for
	// other objects: one before the purge, and one from its start on.
	Purged  int               `json:"purged"`
	Window  float64           `json:"windowSeconds"`
	Samples []PurgeBulkSample `json:"samples"`
}

// PurgeBulkSample is the result of one round of one system.
type PurgeBulkSample struct {
	System string `json:"system"`
	Round  int    `json:"round"`
	// Applied is the duration of the purge in seconds.
	Applied float64 `json:"appliedSeconds"`
	// Checked is the number of purged objects that are requested after the purge. Hits is the number of responses to
	// these requests that are older than the purge.
	Checked int   `json:"checked"`
	Hits    int64 `json:"hits"`
	// Before and During are the latencies of requests for other objects, which are HITs and are sent at a fixed rate.
	// Before covers the time before the purge, and During covers the time from the start of the purge on.
	Before Latencies `json:"before"`
	During Latencies `json:"during"`
	// MemoryBefore is the resident memory of the agent before the purge. MemoryPeak is the maximum of this memory until
	// the end. Both are in MiB, and 0 for systems without an agent.
	MemoryBefore float64 `json:"memoryBeforeMebibytes"`
	MemoryPeak   float64 `json:"memoryPeakMebibytes"`
}

// PurgeRate is the result of the benchmark with many purges a second.
type PurgeRate struct {
	// PerSecond is the number of purges that begin each second. Each purge is for one URL. Seconds is the duration of a
	// measurement. Grace is the time in seconds after which each purge ends. Every is the minimum time between two
	// updates, in milliseconds.
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
	// Lag is the time from the moment at which a purge was due until the agent had applied it. LastLag is the lag of the
	// last purge in milliseconds. Updates is the number of updates that contained the purges.
	Lag     Latencies `json:"lag"`
	LastLag float64   `json:"lastLagms"`
	Updates int       `json:"updates"`
	// CPU is the agent's processor time in seconds. MemoryPeak is the maximum of its resident memory in MiB.
	CPU        float64 `json:"cpuSeconds"`
	MemoryPeak float64 `json:"memoryPeakMebibytes"`
	// JournalBytes is the size in bytes of the journal at the end, before compression, as the operator counts it for the
	// limit of the journal. JournalEncoded is the size in bytes of the compressed journal. Rules is the number of
	// purges, and Open is the number of purges that have not ended.
	JournalBytes   int `json:"journalBytes"`
	JournalEncoded int `json:"journalEncodedBytes"`
	Rules          int `json:"rules"`
	Open           int `json:"open"`
}

// PurgeCost is the result of the benchmark that measures how much an agent with its index slows nginx down.
type PurgeCost struct {
	Rounds  int               `json:"rounds"`
	Seconds float64           `json:"seconds"`
	Samples []PurgeCostSample `json:"samples"`
	// IndexBytes is the size in bytes of the index files on both disks at the end. Files is the number of files in the
	// cache at the end.
	IndexBytes int64 `json:"indexBytes"`
	Files      int64 `json:"files"`
}

// PurgeCostSample is one measurement of one pod with one load.
type PurgeCostSample struct {
	// Agent is true if an agent kept the index. Load is "stores" or "hits". Each request of "stores" is a MISS.
	Agent   bool        `json:"agent"`
	Load    string      `json:"load"`
	Bytes   int         `json:"objectBytes"`
	Round   int         `json:"round"`
	Answers lab.Answers `json:"answers"`
	// Reads is the number of reads from the disks. CPU is the pod's processor time in milliseconds, divided by the
	// number of requests.
	Reads int64   `json:"reads"`
	CPU   float64 `json:"cpuMillisecondsPerRequest"`
	// CatchUp is the time in seconds from the end of the load until the agent's index is complete.
	CatchUp float64 `json:"catchUpSeconds"`
}

// PurgeRebuild is the result of the benchmark that builds new indexes.
type PurgeRebuild struct {
	Rounds int `json:"rounds"`
	Files  int `json:"files"`
	Disks  int `json:"disks"`
	// Bytes is the size of each cached file. MemoryLimit is the value of GOMEMLIMIT.
	Bytes       int                  `json:"fileBytes"`
	MemoryLimit string               `json:"memoryLimit"`
	Samples     []PurgeRebuildSample `json:"samples"`
}

// PurgeRebuildSample is the result of one round. Rebuild is the process that builds the indexes, and Start is the
// process that opens the complete indexes.
type PurgeRebuildSample struct {
	Rebuild IndexRun `json:"rebuild"`
	Start   IndexRun `json:"start"`
	// IndexBytes is the size in bytes of the index files on all disks, measured after the process that builds them has
	// ended.
	IndexBytes int64 `json:"indexBytes"`
}

// IndexRun contains the time and the resources that a process takes to complete the indexes. The process does nothing
// else.
type IndexRun struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpuSeconds"`
	// Peak is the maximal resident memory in MiB.
	Peak float64 `json:"peakMebibytes"`
}
