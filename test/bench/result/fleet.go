package result

import "github.com/cachenode/cachenode-operator/test/lab"

// Fleet is the result of the benchmark of hops between two pods.
type Fleet struct {
	Rounds int `json:"rounds"`
	// Seconds is the duration of a measurement in seconds.
	Seconds     float64 `json:"seconds"`
	Connections int     `json:"connections"`
	// Memory is the memory of each pod in MiB.
	Memory int64 `json:"memoryMebibytes"`
	// Processors is the processor time that each pod may use: 0.5 means half of one processor.
	Processors float64 `json:"processors"`
	// Systems maps the name of each measured system to a description of the system.
	Systems map[string]string `json:"systems"`
	Samples []Hop             `json:"samples"`
}

// Hop is one measurement of one case: objects of one size, which are served in one way.
type Hop struct {
	System string `json:"system"`
	Bytes  int64  `json:"objectBytes"`
	// Way is "local" if the objects are on the disk of the pod that gets the requests. It is "hop" if the other pod has
	// them. It is "memory" if the other pod has them, and the first pod has a copy in memory.
	Way     string      `json:"way"`
	Round   int         `json:"round"`
	Answers lab.Answers `json:"answers"`
	// CPU is the processor time of the pod that gets the requests, and OwnersCPU is the processor time of the other pod,
	// in milliseconds a request.
	CPU       float64 `json:"cpuMillisecondsPerRequest"`
	OwnersCPU float64 `json:"ownersCPUMillisecondsPerRequest"`
}

// FleetSizes is the result of the benchmark of configurations for many pods. One pod runs with each configuration.
type FleetSizes struct {
	Rounds int         `json:"rounds"`
	Disks  int         `json:"disks"`
	Sizes  []FleetSize `json:"sizes"`
}

// FleetSize contains the cost of the configuration for one number of pods.
type FleetSize struct {
	Pods int `json:"pods"`
	// Names is true if nginx resolves the names of pods, and false if the configuration contains the addresses of the
	// pods.
	Names bool `json:"names"`
	// Fleet is the size in bytes of the description of the fleet that the operator writes for the agents. Config is the
	// size in bytes of the configuration that the agent renders.
	Fleet  int `json:"fleetBytes"`
	Config int `json:"configBytes"`
	// Render, Test and Reload are times in milliseconds, for each round. Test is the time of nginx -t. Reload is the
	// time from the signal until the new workers run.
	Render []float64 `json:"renderMilliseconds"`
	Test   []float64 `json:"testMilliseconds"`
	Reload []float64 `json:"reloadMilliseconds"`
	// Queries is the number of DNS queries that nginx sends a second. Rest is the processor time of its workers in
	// milliseconds a second. Both are measured without requests.
	Queries float64 `json:"queriesPerSecond"`
	Rest    float64 `json:"restMilliseconds"`
	// Worker is the memory of one worker, and Processes is the memory of the master and all workers together, both in
	// MiB. If several processes share a page, each of them counts an equal part of the page.
	Worker    float64 `json:"workerMebibytes"`
	Processes float64 `json:"processesMebibytes"`
	// PerSecond is the number of requests per second for an object of 4 KiB on the pod's own disk, for each round.
	PerSecond []float64 `json:"perSecond"`
}
