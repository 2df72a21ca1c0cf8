package result

import "github.com/cachenode/cachenode-operator/test/lab"

// Fleet is the result of the benchmark of hops between two pods.
type Fleet struct {
	Rounds int `json:"rounds"`
	// Seconds is how long a measurement took.
	Seconds     float64 `json:"seconds"`
	Connections int     `json:"connections"`
	// Memory is in MiB, for each pod.
	Memory int64 `json:"memoryMebibytes"`
	// Processors is how much processor time each pod may use: 0.5 is half of one processor.
	Processors float64 `json:"processors"`
	// Systems contains a description of each measured system, by name.
	Systems map[string]string `json:"systems"`
	Samples []Hop             `json:"samples"`
}

// Hop is one measurement of one way to objects of one size.
type Hop struct {
	System string `json:"system"`
	Bytes  int64  `json:"objectBytes"`
	// Way is "local" if the pod that gets the requests has the objects on its disk, "hop" if the other pod has them, and
	// "memory" if the other pod has them and the first pod has a copy in memory.
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

// FleetSize is the cost of the configuration for one number of pods.
type FleetSize struct {
	Pods int `json:"pods"`
	// Names is true if nginx resolves the names of pods, and false if the configuration contains the addresses of the
	// pods.
	Names bool `json:"names"`
	// Fleet is the size of the fleet that the operator writes for the agents, and Config is the size of the
	// configuration that the agent renders, both in bytes.
	Fleet  int `json:"fleetBytes"`
	Config int `json:"configBytes"`
	// Render, Test (nginx -t) and Reload (from the signal until new workers answer) are in milliseconds, for each round.
	Render []float64 `json:"renderMilliseconds"`
	Test   []float64 `json:"testMilliseconds"`
	Reload []float64 `json:"reloadMilliseconds"`
	// Queries is the number of DNS queries that nginx sends a second. Rest is the processor time of its workers in
	// milliseconds a second. Both are measured without requests.
	Queries float64 `json:"queriesPerSecond"`
	Rest    float64 `json:"restMilliseconds"`
	// Worker is the memory of a worker, and Processes is the memory of the master and all workers, both in MiB. A page
	// that several processes share is divided among them.
	Worker    float64 `json:"workerMebibytes"`
	Processes float64 `json:"processesMebibytes"`
	// PerSecond is the number of local hits a second for objects of 4 KiB, for each round.
	PerSecond []float64 `json:"perSecond"`
}
