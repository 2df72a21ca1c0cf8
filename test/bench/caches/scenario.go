package main

import (
	"fmt"
	"time"

	"github.com/cachenode/cachenode-operator/test/lab"
)

// scenario is a case: the requests, the memory, and the speed of the disks.
type scenario struct {
	name string
	// size is the size of each object in bytes, and count is the number of objects in the cache.
	size  int64
	count int
	// memory is in MiB, page cache included.
	memory int64
	speed  lab.Speed
	loads  []lab.Load
	// media is the media of the disks, as the CacheNode declares it. declared is the size in MiB that the CacheNode
	// declares for each disk; 0 for the real size.
	media    string
	declared int64
	// keysZone is the size of the keys zone of each disk in MiB; 0 for the default. Cases with small objects need more
	// than the default.
	keysZone int64
	// inMemory is true if the files of the disks are in memory.
	inMemory bool
	// disk is the size of each disk in MiB; 0 for a size that follows from the objects of the case.
	disk int64
	// seconds is the default length of a measurement. It is long enough for several answers on each connection.
	seconds int
	// begins is the state of the memory at the beginning of each round; "" for an empty page cache.
	begins memory
	// misses is true if some requests are for objects that are not in the cache.
	misses bool
	// full is true if the caches are full of objects that nobody requests any more. Each miss then evicts an object.
	full bool
	// twice is true if all objects are requested twice when the caches are filled, because some of the servers store an
	// object at its second request.
	twice bool
	// reference contains published figures to compare with the measured ratios; "" if there are none.
	reference string
}

// disksAbout returns a description of the disks.
func (s scenario) disksAbout() string {
	switch {
	case s.inMemory:
		return "disks in memory"
	case s.speed == lab.Speed{}:
		return "disks in files on the machine's disk"
	}
	return s.speed.String()
}

// slow is the speed of hard disks. Each read and each write takes the time of a seek, and the time to transfer its
// bytes.
var slow = lab.Speed{Seek: 8 * time.Millisecond, Bytes: 150e6}

// hot returns the path of the object that the hot load requests.
func hot(size int64) string { return fmt.Sprintf("/objects/%d/0", size) }

// mixed returns a case on hard disks with two loads at the same time: random load over all objects, and a hot load in
// which many clients request one of the objects.
func mixed(name string, size int64, count int, memory int64, seconds int) scenario {
	return scenario{
		name: name, size: size, count: count, memory: memory, speed: slow, media: "HDD", seconds: seconds,
		loads: []lab.Load{lab.Random("random", 200, count, size), lab.One("hot", 50, hot(size))},
	}
}

// large returns the case s with fewer clients, because 200 objects of 16 MiB keep three disks busy for half a minute.
func large(s scenario) scenario {
	s.loads[0].Connections, s.loads[1].Connections = 30, 10
	return s
}

// fast returns a case with a single load, on disks in memory.
func fast(name string, size int64, count int, memory int64, load lab.Load) scenario {
	return scenario{
		name: name, size: size, count: count, memory: memory,
		media: "NVMe", inMemory: true, seconds: 4, loads: []lab.Load{load},
	}
}

// both returns a case on disks in memory with two loads at the same time: random load over all objects, and a hot load
// on one object. Both loads have the same number of clients.
func both(name string, size int64, count int) scenario {
	s := fast(name, size, count, 300, lab.Random("random", 50, count, size))
	s.loads = append(s.loads, lab.One("hot", 50, hot(size)))
	return s
}

// inMemory returns a case with a single load. The disks are declared so small that the memory can hold their whole
// content.
func inMemory(name string, size int64, count int, load lab.Load) scenario {
	s := fast(name, size, count, 700, load)
	s.declared = 160
	return s
}

// zipf returns a case on hard disks whose load requests some objects much more often than others. One request in ten
// is a miss.
func zipf(name string, size int64, count, connections int) scenario {
	return scenario{
		name: name, size: size, count: count, memory: 300, speed: slow, misses: true, media: "HDD", seconds: 15,
		loads: []lab.Load{lab.Zipf("zipf", connections, count, 10, size)},
	}
}

// small returns the case s with random load over 400,000 objects of 1 KiB. The inodes of so many objects do not fit
// into the memory.
func small(s scenario) scenario {
	s.keysZone = 24 // 133,000 keys for each disk
	s.size, s.count, s.loads = kibi, 400_000, []lab.Load{lab.Random("random", 200, 400_000, kibi)}
	return s
}

// millions returns a case with random load over 5,000,000 objects of 1 KiB. The disks of this case do not fit into
// the memory of a machine, so they are files on the machine's disk.
func millions() scenario {
	const count = 5_000_000
	s := fast("millions", kibi, count, 1536, lab.Random("random", 200, count, kibi))
	s.inMemory, s.seconds = false, 20
	s.disk, s.keysZone = 10_000, 224 // 1,790,000 keys for each disk
	return s
}

// aged returns the case s on disks that have been full for a long time.
func aged(s scenario) scenario {
	s.full, s.name = true, "aged-"+s.name
	return s
}

// admitted returns the case s with a change: each object is requested twice when the caches are filled. So servers that
// store an object only at its second request have also stored all objects.
func admitted(s scenario) scenario {
	s.twice = true
	return s
}

// tail returns a case on full disks. Its load requests ten times as many different objects as were requested to fill
// the caches. The object of rank n is requested 1/n times as often as the first object. So many objects are requested
// only once for a long time.
func tail(name string, size int64, count, connections int) scenario {
	s := zipf(name, size, count, connections)
	s.full, s.twice, s.loads = true, true, []lab.Load{lab.Zipf("tail", connections, 10*count, 0, size)}
	return s
}

const kibi, mebi = 1 << 10, 1 << 20

var scenarios = map[string][]scenario{
	// As in the article, the objects of 4 MiB do not fit into memory. A hit takes longer than in the other cases, so the
	// duration of a measurement is longer too.
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
		both("fast-4k-both", 4*kibi, 100000),
		both("fast-64k-both", 64*kibi, 16000),
		both("fast-1m-both", mebi, 1500),
		fast("fast-16m-random", 16*mebi, 150, 300, lab.Random("random", 10, 150, 16*mebi)),
	},
	"small": {
		small(fast("small-fast", kibi, 0, 300, lab.Load{})),
		small(mixed("small-slow", kibi, 0, 300, 15)),
	},
	"millions": {millions()},
	"zipf": {
		zipf("zipf-64k", 64*kibi, 16000, 200),
		zipf("zipf-1m", mebi, 1500, 100),
		aged(zipf("zipf-64k", 64*kibi, 16000, 200)),
	},
	"admission": {
		admitted(zipf("once-64k", 64*kibi, 16000, 200)),
		aged(admitted(zipf("once-64k", 64*kibi, 16000, 200))),
		tail("tail-64k", 64*kibi, 16000, 200),
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
