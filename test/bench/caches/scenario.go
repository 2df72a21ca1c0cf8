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
	// inMemory is true if the files of the disks are in memory.
	inMemory bool
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

// hardDisk costs a seek for each read and write, beside its bytes. A large read then costs more than a small one, as on
// a real disk.
var hardDisk = lab.Speed{Seek: 8 * time.Millisecond, Bytes: 150e6}

// hot is the path of the object that the constant load requests.
func hot(size int64) string { return fmt.Sprintf("/objects/%d/0", size) }

// mixed is random load over all objects and, at the same time, many clients that request one of them.
func mixed(name string, size int64, count int, memory int64, seconds int) scenario {
	return scenario{
		name: name, size: size, count: count, memory: memory, speed: slow, media: "HDD", seconds: seconds,
		loads: []lab.Load{lab.Random("random", 200, count, size), lab.One("hot", 50, hot(size))},
	}
}

// seeks is a case on disks that cost seeks.
func seeks(s scenario) scenario {
	s.speed, s.name = hardDisk, "seeks-"+strings.TrimPrefix(s.name, "slow-")
	return s
}

// large reduces the number of clients, because 200 objects of 16 MiB keep three disks busy for half a minute.
func large(s scenario) scenario {
	s.loads[0].Connections, s.loads[1].Connections = 30, 10
	return s
}

// fast is one load alone, on disks in memory.
func fast(name string, size int64, count int, memory int64, load lab.Load) scenario {
	return scenario{
		name: name, size: size, count: count, memory: memory,
		media: "NVMe", inMemory: true, seconds: 4, loads: []lab.Load{load},
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
		seeks(mixed("slow-64k-300", 64*kibi, 16000, 300, 15)),
		seeks(mixed("slow-1m-300", mebi, 1500, 300, 30)),
		seeks(mixed("slow-4m-700", 4*mebi, 500, 700, 60)),
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
		seeks(zipf("zipf-64k", 64*kibi, 16000, 200)), // misses are written, which costs seeks too
		seeks(zipf("zipf-1m", mebi, 1500, 100)),
	},
	"tuning": {
		mixed("tuning-slow-1m", mebi, 1500, 300, 20),
		mixed("tuning-slow-64k", 64*kibi, 16000, 300, 10),
		fast("tuning-fast-4k", 4*kibi, 100000, 300, lab.Random("random", 50, 100000, 4*kibi)),
		fast("tuning-fast-16m", 16*mebi, 150, 700, lab.Random("random", 10, 150, 16*mebi)),
		fast("tuning-fast-1m", mebi, 1500, 300, lab.Random("random", 50, 1500, mebi)),
		fast("tuning-fast-64k", 64*kibi, 16000, 300, lab.Random("random", 50, 16000, 64*kibi)),
		zipf("tuning-zipf-64k", 64*kibi, 16000, 200),
	},
}
