package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// movement is the number of keys that one kind of change moves.
type movement struct {
	Change string `json:"change"`
	// Times maps each way of sharding to the number of moved keys, as a multiple of the minimum. Least is the minimum in
	// percent of all keys.
	Times map[string]float64 `json:"timesOfLeast"`
	Least float64            `json:"leastPercent"`
}

// balance shows, for one way of sharding, how much a disk's number of keys differs from the number that corresponds to
// the disk's weight.
type balance struct {
	Way string `json:"way"`
	// Median and Worst are the median and the maximum of this difference over all sets of disks, in percent of the number
	// that corresponds to the weight. For each set of disks, only the disk with the largest difference counts.
	Median float64 `json:"medianPercent"`
	Worst  float64 `json:"worstPercent"`
}

// sharding returns the name of the disk for a hash of 32 bits.
type sharding func(hash uint32) string

// byPlan returns the sharding that CacheNode uses.
func byPlan(disks []shard.Member) sharding {
	plan := shard.NewPlan(disks)
	return func(hash uint32) string { return plan.Owner(int(uint64(hash) * shard.Slots >> 32)) }
}

// byPercentages returns the sharding that people write by hand. The order of the ranges is the order of the disks, and
// each disk gets one range of hashes.
func byPercentages(disks []shard.Member) sharding {
	var ends []uint64
	total, sum := weights(disks), int64(0)
	for _, d := range disks {
		sum += d.Weight
		ends = append(ends, uint64(float64(sum)/float64(total)*(1<<32)))
	}
	return func(hash uint32) string {
		i, _ := slices.BinarySearch(ends, uint64(hash)+1)
		return disks[min(i, len(disks)-1)].Name
	}
}

// byModulo returns the sharding that takes a list of disks, and uses the hash modulo the length of the list as the
// index. A disk of weight w is in the list w times.
func byModulo(disks []shard.Member) sharding {
	var list []string
	for _, d := range disks {
		list = append(list, slices.Repeat([]string{d.Name}, int(d.Weight))...)
	}
	return func(hash uint32) string { return list[int(hash)%len(list)] }
}

func weights(disks []shard.Member) (total int64) {
	for _, d := range disks {
		total += d.Weight
	}
	return total
}

var shardings = map[string]func([]shard.Member) sharding{
	"plan": byPlan, "percentages": byPercentages, "modulo": byModulo,
}

func randomDisks(rng *rand.Rand) []shard.Member {
	disks := make([]shard.Member, 2+rng.IntN(15))
	for i := range disks {
		disks[i] = shard.Member{Name: fmt.Sprintf("disk%d", i+1), Weight: 1 + rng.Int64N(10)}
	}
	return disks
}

var changes = []struct {
	name string
	make func(*rand.Rand, []shard.Member) []shard.Member
}{
	{"add a disk", func(rng *rand.Rand, disks []shard.Member) []shard.Member {
		return append(disks, shard.Member{Name: "new", Weight: 1 + rng.Int64N(10)})
	}},
	{"remove a disk", func(rng *rand.Rand, disks []shard.Member) []shard.Member {
		i := rng.IntN(len(disks))
		return slices.Delete(disks, i, i+1)
	}},
	{"weigh one otherwise", func(rng *rand.Rand, disks []shard.Member) []shard.Member {
		i := rng.IntN(len(disks))
		disks[i].Weight = 1 + (disks[i].Weight+rng.Int64N(9))%10
		return disks
	}},
}

// move changes random sets of disks and counts the keys that move.
func move(sets, keys int) []movement {
	var list []movement
	for _, change := range changes {
		rng := rand.New(rand.NewPCG(1, 2))
		moved, least := map[string]int{}, 0.0
		for range sets {
			before := randomDisks(rng)
			after := change.make(rng, slices.Clone(before))
			least += leastMoved(before, after) * float64(keys)
			hashes := randomHashes(rng, keys)
			for way, of := range shardings {
				was, is := of(before), of(after)
				for _, hash := range hashes {
					if was(hash) != is(hash) {
						moved[way]++
					}
				}
			}
		}
		m := movement{Change: change.name, Times: map[string]float64{}, Least: 100 * least / float64(sets*keys)}
		for way, n := range moved {
			m.Times[way] = float64(n) / least
		}
		list = append(list, m)
	}
	return list
}

func randomHashes(rng *rand.Rand, n int) []uint32 {
	hashes := make([]uint32, n)
	for i := range hashes {
		hashes[i] = rng.Uint32()
	}
	return hashes
}

// leastMoved returns the minimum share of all keys that must move. To compute it, leastMoved adds up by how much the
// share of each disk changes, and divides the sum by two.
func leastMoved(before, after []shard.Member) float64 {
	share := map[string]float64{}
	for _, d := range before {
		share[d.Name] -= float64(d.Weight) / float64(weights(before))
	}
	for _, d := range after {
		share[d.Name] += float64(d.Weight) / float64(weights(after))
	}
	sum := 0.0
	for _, change := range share {
		sum += math.Abs(change)
	}
	return sum / 2
}

// spread returns the balance of each way of sharding. It uses evenly spaced hashes, so all slots have the same number
// of keys.
func spread(sets int) []balance {
	const keys = 20 * shard.Slots
	var list []balance
	for _, way := range []string{"plan", "percentages", "modulo"} {
		rng := rand.New(rand.NewPCG(3, 4))
		var worst []float64
		for range sets {
			disks := randomDisks(rng)
			of, got := shardings[way](disks), map[string]int{}
			for i := range keys { // evenly spaced hashes
				got[of(uint32((uint64(i)<<32+1<<31)/uint64(keys)))]++
			}
			far := 0.0
			for _, d := range disks {
				want := float64(d.Weight) / float64(weights(disks)) * float64(keys)
				far = max(far, 100*math.Abs(float64(got[d.Name])-want)/want)
			}
			worst = append(worst, far)
		}
		list = append(list, balance{Way: way, Median: result.Median(worst), Worst: slices.Max(worst)})
	}
	return list
}
