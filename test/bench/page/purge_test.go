package main

import (
	"os"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
	"github.com/cachenode/cachenode-operator/test/record"
)

// purged returns results of all cases of the benchmark of purges. The parameter hits is the number of HITs of CacheNode
// after each purge of half of the objects.
func purged(t *testing.T, hits int64) *results {
	t.Helper()
	folder := t.TempDir()
	fresh := result.Latencies{Count: 500, P50: 3.9, P99: 29.5}
	cost := func(agent bool, rate float64) result.PurgeCostSample {
		return result.PurgeCostSample{
			Agent: agent, Load: "stores", Bytes: 1 << 10, CPU: 0.2, Answers: lab.Answers{PerSecond: rate, Requests: 100},
		}
	}
	bulk := result.PurgeBulk{Rounds: 1, Objects: 200_000, Purged: 100_000, Window: 5, Samples: []result.PurgeBulkSample{
		{System: ownName, Applied: 9, Checked: 20_000, Hits: hits, MemoryBefore: 40, MemoryPeak: 44},
		{System: "varnish-ban", Applied: 0.001, Checked: 20_000, Hits: 7},
	}}
	tag := bulk
	tag.Kind = "tag"
	for name, value := range map[string]any{
		"purge-urls": result.PurgeURLs{Rounds: 1, Times: 500, Samples: []result.PurgeURLSample{
			{System: threePods, Answered: fresh, Fresh: fresh}, {System: trafficServer, Fresh: fresh, Hits: 9},
		}},
		"purge-tag": tag, "purge-prefix": bulk,
		"purge-rate": result.PurgeRate{PerSecond: 1000, Rounds: 1, Samples: []result.PurgeRateSample{{LastLag: 5900}}},
		"purge-cost": result.PurgeCost{Rounds: 2, Samples: []result.PurgeCostSample{
			cost(true, 3000), cost(false, 4000), cost(true, 6000), cost(false, 8000),
		}},
		"purge-rebuild": result.PurgeRebuild{Rounds: 1, Files: 1_000_000, Disks: 2, Samples: []result.PurgeRebuildSample{
			{Rebuild: result.IndexRun{Peak: 44}, IndexBytes: 117_000_000},
		}},
		"purge-soak": record.Soak{Purges: map[string]int{"tags": 1000, "hosts": 7}, P50: 1.9},
	} {
		if err := record.Write(folder, name, value); err != nil {
			t.Fatal(err)
		}
	}
	return &results{folder: folder}
}

func TestPurgeTables(t *testing.T) {
	r := purged(t, 0)
	for name, want := range map[string]string{
		"purge-urls":    "| Traffic Server, PURGE | 0.00 | 0.00 | 3.9 |",
		"purge-tag":     "| Varnish, xkey | not in Debian's package |",
		"purge-prefix":  "| **CacheNode**, one pod | 9,000 | 0 of 20,000 |",
		"purge-rate":    "| 5,900 |",
		"purge-cost":    "| stores | 1 KiB | 6,000 (3,000-6,000) | 8,000 (4,000-8,000) | **0.75 (0.75-0.75)** |",
		"purge-rebuild": "| 44 | 117 |",
		"purge-soak":    "| – by hosts | 7 |\n| – by tags | 1,000 |",
		"purge-goals":   "| HITs of purged objects, all cases | 0 | 0 | yes |\n",
	} {
		if got, err := r.table(name); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %q is not in the table (%v):\n%s", name, want, err, got)
		}
	}
}

// TestPurgeChart checks that the chart contains the names of the measured systems.
func TestPurgeChart(t *testing.T) {
	r := purged(t, 0)
	file := r.folder + "/purge.svg"
	if err := r.purgeChart(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"three pods at once", "Traffic Server"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in the chart", want)
		}
	}
}

// TestPurgeGoals checks that the table marks goals that are not reached, and that HITs of other systems than CacheNode
// do not count.
func TestPurgeGoals(t *testing.T) {
	r := purged(t, 3)
	got, err := r.table("purge-goals")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| HITs of purged objects, all cases | 0 | 6 | **no** |",
		"| one URL on three pods, p50 ms | 100 | 4 | yes |",
		"| one URL on three pods, p99 ms | 300 | 30 | yes |",
		"| a tag of 100,000 objects, applied after, ms | 2,000 | 9,000 | **no** |",
		"| lag of the last purge, 1,000 a second, ms | 1,000 | 5,900 | **no** |",
		"| memory to index 1,000,000 files on 2 disks, MiB | 96 | 44 | yes |",
		"| index on disk, bytes an object | 100 | 117 | **no** |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the table:\n%s", want, got)
		}
	}
	if err := os.Remove(r.folder + "/purge-rate.json"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.table("purge-goals"); err == nil {
		t.Error("a result is missing, and there is a table")
	}
}
