package e2e

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/test/client/report"
	"github.com/cachenode/cachenode-operator/test/record"
)

// check compares the responses to the loads with the purges, and reports the result.
func (k *soak) check(t *testing.T) {
	t.Helper()
	if len(k.purges) == 0 {
		t.Fatal("no purge was sent")
	}
	phases := []struct {
		name string
		at   func(*onePurge) time.Time
		old  int64
	}{
		{name: "settled", at: func(p *onePurge) time.Time { return p.settle }},
		{name: "applied", at: func(p *onePurge) time.Time { return p.applied }},
	}
	var requests, hits int64
	var results []report.Result
	for _, r := range k.results {
		if r.Error != "" {
			continue // other tests check that faults cause no errors
		}
		results = append(results, r)
		requests++
		if r.Cache == "HIT" {
			hits++
		}
	}
	for i := range phases {
		phase := &phases[i]
		hard, all := newBounds(k.purges, phase.at, v1alpha1.PurgeHard), newBounds(k.purges, phase.at, "")
		for _, r := range results {
			want := all.at(group(r.Path), began(r))
			if r.Cache == "STALE" || r.Cache == "UPDATING" { // after a soft purge, stale objects may be served
				want = hard.at(group(r.Path), began(r))
			}
			if r.Version >= want {
				continue
			}
			if phase.old++; phase.old < 10 {
				t.Logf("%s at %s from %s: version %d (%s), and the purge before version %d was %s",
					r.Path, began(r).Format(time.TimeOnly), r.Pod, r.Version, r.Cache, want, phase.name)
			}
		}
	}
	old, late := phases[0].old, phases[1].old-phases[0].old
	t.Logf("%d requests, %d HITs, %d purges: %d bodies after a purge had settled, %d between applied and settled",
		requests, hits, len(k.purges), old, late)
	if old > 0 {
		t.Errorf("%d bodies were older than a purge that had settled", old)
	}
	k.report(t, record.Soak{Requests: requests, Hits: hits, Late: late, Old: old})
	if requests < 1000 || hits < requests/10 || len(k.purges) < 10 {
		t.Error("that is too little to show anything")
	}
}

// reportLatency logs the time from the creation of purges until they were Applied.
func (k *soak) reportLatency(t *testing.T) (median, within99, longest time.Duration) {
	t.Helper()
	var latency []time.Duration
	for _, p := range k.purges {
		latency = append(latency, p.applied.Sub(p.created))
	}
	slices.Sort(latency)
	median, within99, longest = latency[len(latency)/2], latency[len(latency)*99/100], latency[len(latency)-1]
	t.Logf("%d purges from the call to applied: median %s, 99%% within %s, longest %s",
		len(latency), median, within99, longest)
	return median, within99, longest
}

// report logs the times. If CACHENODE_TEST_RECORD names a folder, report also writes all figures to this folder.
func (k *soak) report(t *testing.T, r record.Soak) {
	t.Helper()
	median, within99, longest := k.reportLatency(t)
	folder := os.Getenv("CACHENODE_TEST_RECORD")
	if folder == "" {
		return
	}
	r.Seconds, r.P50, r.P99, r.Longest = k.lasts.Seconds(), median.Seconds(), within99.Seconds(), longest.Seconds()
	r.Purges, r.Faults = map[string]int{}, k.ended
	for _, p := range k.purges {
		r.Purges[p.kind]++
	}
	must(t, record.Write(folder, "purge-soak", r))
}

// group returns the group of a path.
func group(path string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(strings.Split(path, "/")[2], "t"))
	if err != nil {
		panic(errors.Join(errors.New(path), err)) // the test itself creates all paths
	}
	return n
}

// allGroups stands for all groups in a purge of all objects.
const allGroups = -1

// bounds contains a list for each group, sorted by time. A response to a request that begins after the time since may
// have no version lower than version.
type bounds map[int][]bound

type bound struct {
	since   time.Time
	version int64
}

// newBounds returns the bounds that follow from the purges of a mode; "" means all modes. since returns the time from
// which a purge must have an effect.
func newBounds(purges map[string]*onePurge, since func(*onePurge) time.Time, mode v1alpha1.PurgeMode) bounds {
	b := bounds{}
	for _, p := range purges {
		if mode != "" && p.mode != mode {
			continue
		}
		b[p.group] = append(b[p.group], bound{since(p), p.version})
	}
	for _, list := range b {
		slices.SortFunc(list, func(a, b bound) int { return a.since.Compare(b.since) })
		for i := range list[1:] {
			list[i+1].version = max(list[i].version, list[i+1].version)
		}
	}
	return b
}

// at returns the lowest version that an object of a group may have at a moment.
func (b bounds) at(group int, moment time.Time) int64 {
	return max(b.of(group, moment), b.of(allGroups, moment))
}

// of returns the lowest version that follows from the purges of this group alone.
func (b bounds) of(group int, moment time.Time) int64 {
	list := b[group]
	i, _ := slices.BinarySearchFunc(list, moment, func(b bound, at time.Time) int {
		return cmp.Or(b.since.Compare(at), -1) // finds the last bound before this moment
	})
	if i == 0 {
		return 0
	}
	return list[i-1].version
}
