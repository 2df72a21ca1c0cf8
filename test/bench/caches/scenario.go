package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/test/lab"
)

// scenario is a case: the requests, the memory, and the speed of the disks.
type scenario struct {
	name string
	// count objects of size bytes are in the cache.
	size  int64
	count int
	// memory is in MiB, page cache included.
	memory int64
	speed  lab.Speed
	loads  []lab.Load
	// media is the media of the disks in the CacheNode. declared is their size there in MiB; 0 for the real size.
	media    string
	declared int64
	// seconds is the default length of a measurement: enough for several answers per connection.
	seconds int
	// used is true for a measurement with memory as after long use instead of an empty page cache.
	used bool
	// misses is true if some requests are for objects that are not in the cache.
	misses bool
	// reference has published figures to compare the ratios with.
	reference string
}

// slow is the speed of hard disks: with a seek time of some milliseconds they do 150 reads and 150 MB per second.
var slow = lab.Speed{Reads: 150, Bytes: 150e6}

// hot is the path of the object that the constant load requests.
func hot(size int64) string { return fmt.Sprintf("/objects/%d/0", size) }

// mixed is random load over all objects and, at the same time, many clients that request one of them.
func mixed(name string, size int64, count int, memory int64, seconds int) scenario {
	return scenario{
		name: name, size: size, count: count, memory: memory, speed: slow, media: "HDD", seconds: seconds,
		loads: []lab.Load{lab.Random("random", 200, count, size), lab.One("hot", 50, hot(size))},
	}
}

// large reduces the number of clients, because 200 objects of 16 MiB keep three disks busy for half a minute.
func large(s scenario) scenario {
	s.loads[0].Connections, s.loads[1].Connections = 30, 10
	return s
}

// fast is one load alone, on disks at full speed.
func fast(name string, size int64, count int, memory int64, load lab.Load) scenario {
	return scenario{
		name: name, size: size, count: count, memory: memory,
		media: "NVMe", seconds: 4, loads: []lab.Load{load},
	}
}

// inMemory is one load alone, with disks that are declared so small that the memory can hold all of them.
func inMemory(name string, size int64, count int, load lab.Load) scenario {
	s := fast(name, size, count, 700, load)
	s.declared = 160
	return s
}

// zipf is a load that requests some objects much more often than others. One request in ten is a miss.
func zipf(name string, size int64, count, connections int) scenario {
	return scenario{
		name: name, size: size, count: count, memory: 300, speed: slow, misses: true, media: "HDD", seconds: 15,
		loads: []lab.Load{lab.Zipf("zipf", connections, count, 10, size)},
	}
}

const kibi, mebi = 1 << 10, 1 << 20

var scenarios = map[string][]scenario{
	// As in the article, the 4 MB objects do not fit into memory. A hit takes longer, so a measurement does too.
	"article": {func() scenario {
		s := mixed("article-4m", 4*mebi, 500, 700, 80)
		s.reference = "the article's own, thread pools against none: 9 times the throughput; " +
			"constant load 31 times the requests, 1/33 of the mean latency"
		return s
	}()},
	"peers": {
		mixed("slow-1m-300", mebi, 1500, 300, 30),
		mixed("slow-1m-700", mebi, 1500, 700, 30),
		mixed("slow-64k-300", 64*kibi, 16000, 300, 15),
		mixed("slow-64k-700", 64*kibi, 16000, 700, 15),
		large(mixed("slow-16m-700", 16*mebi, 150, 700, 60)),
		mixed("slow-4k-300", 4*kibi, 100000, 300, 8),
	},
	"fast": {
		inMemory("memory-4k-hot", 4*kibi, 1000, lab.One("hot", 50, hot(4*kibi))),
		inMemory("memory-4k-random", 4*kibi, 1000, lab.Random("random", 50, 1000, 4*kibi)),
		inMemory("memory-64k-hot", 64*kibi, 1000, lab.One("hot", 50, hot(64*kibi))),
		inMemory("memory-64k-random", 64*kibi, 1000, lab.Random("random", 50, 1000, 64*kibi)),
		inMemory("memory-1m-hot", mebi, 200, lab.One("hot", 50, hot(mebi))),
		inMemory("memory-1m-random", mebi, 200, lab.Random("random", 50, 200, mebi)),
		fast("fast-4k-random", 4*kibi, 100000, 300, lab.Random("random", 50, 100000, 4*kibi)),
		fast("fast-64k-random", 64*kibi, 16000, 300, lab.Random("random", 50, 16000, 64*kibi)),
		fast("fast-1m-random", mebi, 1500, 300, lab.Random("random", 50, 1500, mebi)),
		fast("fast-16m-random", 16*mebi, 150, 300, lab.Random("random", 10, 150, 16*mebi)),
	},
	"zipf": {
		zipf("zipf-64k", 64*kibi, 16000, 200),
		zipf("zipf-1m", mebi, 1500, 100),
	},
	"tuning": {
		mixed("tuning-slow-1m", mebi, 1500, 300, 20),
		mixed("tuning-slow-64k", 64*kibi, 16000, 300, 10),
		fast("tuning-fast-1m", mebi, 1500, 300, lab.Random("random", 50, 1500, mebi)),
		fast("tuning-fast-64k", 64*kibi, 16000, 300, lab.Random("random", 50, 16000, 64*kibi)),
		zipf("tuning-zipf-64k", 64*kibi, 16000, 200),
	},
}

// sample is one measurement of one server.
type sample struct {
	// Loads are in the scenario's order.
	Loads []lab.Answers `json:"loads"`
	// ReadsPerHit is the number of the disks' reads per request of the random load. CPU is in milliseconds per request of
	// all loads.
	ReadsPerHit float64 `json:"readsPerHit"`
	CPU         float64 `json:"cpuMillisecondsPerRequest"`
	// Memory is in MiB. Origin is the number of requests to the origin.
	Memory int64 `json:"memoryMebibytes"`
	Origin int64 `json:"originRequests"`
	// Short is true if a load had fewer than [enough] answers per connection.
	Short bool `json:"short,omitempty"`
}

// enough is the number of answers per connection above which requests in progress at the end of a measurement matter
// little.
const enough = 3

// String returns a line of progress.
func (s sample) String() string {
	var b strings.Builder
	for _, a := range s.Loads {
		fmt.Fprintf(&b, "%9.1f/s p99 %8.1f ms ", a.PerSecond, a.P99)
	}
	fmt.Fprintf(&b, " %5.2f reads, %d MiB, %d to the origin", s.ReadsPerHit, s.Memory, s.Origin)
	return b.String()
}

// warmUpTime is how long the load runs before a measurement, on disks at the speed of the measurement: long enough for
// a server to detect a hot object.
const warmUpTime = 3 * time.Second

// warmUp runs the load before a measurement. It begins with an empty page cache, or with memory as after long use. In
// the second case the disks first have full speed, because slow disks would take minutes to fill the memory.
func (b *bench) warmUp(r *running) error {
	if b.used {
		if _, err := b.ask(r, 2*warmUpTime); err != nil {
			return err
		}
	} else if err := lab.DropCaches(); err != nil {
		return err
	}
	if err := r.process.Throttle(b.speed); err != nil {
		return err
	}
	_, err := b.ask(r, warmUpTime)
	return err
}

// ask puts the loads on a server and checks the answers.
func (b *bench) ask(r *running, duration time.Duration) ([]lab.Answers, error) {
	answers, err := b.Ask(r.site.URL(), duration, b.loads...)
	if err != nil {
		return nil, err
	}
	for i, a := range answers {
		if a.Errors > 0 {
			return nil, fmt.Errorf("%s: %d requests failed beside %d that did not",
				b.loads[i].Name, a.Errors, a.Requests)
		}
		if a.Bytes < a.Requests*b.size {
			return nil, fmt.Errorf("%s: %d answers of %d bytes have %d bytes together",
				b.loads[i].Name, a.Requests, b.size, a.Bytes)
		}
	}
	return answers, nil
}

// sample measures a server once.
func (b *bench) sample(r *running) (sample, error) {
	var s sample
	if err := b.warmUp(r); err != nil {
		return s, err
	}
	before, err := r.process.Use()
	if err != nil {
		return s, err
	}
	asked, err := r.site.OriginCount()
	if err != nil {
		return s, err
	}
	if s.Loads, err = b.ask(r, b.duration); err != nil {
		return s, err
	}
	after, err := r.process.Use()
	if err != nil {
		return s, err
	}
	var requests int64
	for i, a := range s.Loads {
		requests += a.Requests
		s.Short = s.Short || a.Requests < enough*int64(b.loads[i].Connections)
	}
	s.ReadsPerHit = float64(after.Reads-before.Reads) / float64(max(s.Loads[0].Requests, 1))
	s.CPU = float64((after.CPU - before.CPU).Milliseconds()) / float64(max(requests, 1))
	memory, err := r.process.Memory()
	if err != nil {
		return s, err
	}
	s.Memory = memory >> 20
	killed, err := r.process.Killed()
	if err != nil {
		return s, err
	}
	if killed > 0 {
		return s, fmt.Errorf("the kernel has killed %d processes for want of memory", killed)
	}
	if s.Origin, err = r.site.OriginCount(); err != nil {
		return s, err
	}
	s.Origin -= asked
	if random := s.Loads[0].Requests; !b.misses && s.Origin > random/100 {
		return s, fmt.Errorf("%d of %d random requests went to the origin, and all objects should be in the cache",
			s.Origin, random)
	}
	if share := float64(s.Origin) / float64(max(requests, 1)); b.misses && (share < 0.08 || share > 0.16) {
		return s, fmt.Errorf("%.1f%% of the requests went to the origin, "+
			"and one in ten was for what the cache cannot have: is it full?", 100*share)
	}
	if err := r.process.Throttle(lab.Speed{}); err != nil {
		return s, err
	}
	return s, b.fetch(r.site, min(b.count, 50)) // checks every byte, of the hot object too
}
