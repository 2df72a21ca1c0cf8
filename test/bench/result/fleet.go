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
	// Systems are what was measured, with a description.
	Systems map[string]string `json:"systems"`
	Samples []Hop             `json:"samples"`
}

// Hop is one measurement of one way to an object.
type Hop struct {
	System string `json:"system"`
	Bytes  int64  `json:"objectBytes"`
	// Way is "local" if the pod that gets the requests has the objects on its disk, "hop" if the other pod has them, and
	// "memory" if the other pod has them, and the first one a copy in memory.
	Way     string      `json:"way"`
	Round   int         `json:"round"`
	Answers lab.Answers `json:"answers"`
	// CPU is what the pod that gets the requests used, OwnersCPU what the other one used, in milliseconds a request.
	CPU       float64 `json:"cpuMillisecondsPerRequest"`
	OwnersCPU float64 `json:"ownersCPUMillisecondsPerRequest"`
}

// FleetSizes is what configurations for many pods cost one pod.
type FleetSizes struct {
	Rounds int         `json:"rounds"`
	Disks  int         `json:"disks"`
	Sizes  []FleetSize `json:"sizes"`
}

// FleetSize is the cost of a number of pods.
type FleetSize struct {
	Pods int `json:"pods"`
	// Names is true if nginx resolves the names of pods, and false if it has their addresses.
	Names bool `json:"names"`
	// Fleet and Config are the bytes of what the operator writes and of the configuration that the agent renders.
	Fleet  int `json:"fleetBytes"`
	Config int `json:"configBytes"`
	// Render, Test (nginx -t) and Reload (from the signal until new workers answer) are in milliseconds, for each round.
	Render []float64 `json:"renderMilliseconds"`
	Test   []float64 `json:"testMilliseconds"`
	Reload []float64 `json:"reloadMilliseconds"`
	// Queries is how many names nginx asks a DNS server for in a second, and Rest how many milliseconds of processor time
	// its workers take in a second, both without requests.
	Queries float64 `json:"queriesPerSecond"`
	Rest    float64 `json:"restMilliseconds"`
	// Worker is the memory of a worker in MiB, in which a page that processes share is divided among them, and Processes
	// that of the master and all workers.
	Worker    float64 `json:"workerMebibytes"`
	Processes float64 `json:"processesMebibytes"`
	// PerSecond is local hits of 4 KiB, for each round.
	PerSecond []float64 `json:"perSecond"`
}
