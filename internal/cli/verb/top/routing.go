package top

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
)

// routingRate contains the rates of a pod that shares keys, per second, measured between two reads of its metrics. The
// numbers of hops and bytes are estimates for all requests.
type routingRate struct {
	pod                                                      string
	share, peer, standIn, unanswered, bytes, filled, fetched float64
}

// routingRates returns the rates of the pods between two reads of their metrics. It returns nothing if no pod shares
// its keys. It omits pods that are missing from one of the reads, and pods whose counters were reset between the reads.
// It is pure.
func routingRates(before, after map[string]podmetrics.Pod, elapsed time.Duration) (list []routingRate) {
	shared := false
	for _, pod := range slices.Sorted(maps.Keys(after)) {
		old, ok := before[pod]
		now, was := after[pod].Routing, old.Routing
		beganAgain := now.Peer < was.Peer || now.StandIn < was.StandIn || now.Bytes < was.Bytes ||
			now.Unanswered < was.Unanswered || now.Filled < was.Filled || now.Fetched < was.Fetched
		if !ok || now.Sampling == 0 || beganAgain {
			continue
		}
		shared = shared || now.Share < 1
		second, estimate := 1/elapsed.Seconds(), 1/elapsed.Seconds()/now.Sampling
		list = append(list, routingRate{
			pod: pod, share: now.Share, peer: (now.Peer - was.Peer) * estimate, standIn: (now.StandIn - was.StandIn) * estimate,
			unanswered: (now.Unanswered - was.Unanswered) * estimate, bytes: (now.Bytes - was.Bytes) * estimate,
			filled: (now.Filled - was.Filled) * second, fetched: (now.Fetched - was.Fetched) * second,
		})
	}
	if !shared {
		return nil
	}
	return list
}

func writeRouting(out io.Writer, list []routingRate) {
	if len(list) == 0 {
		return
	}
	_, _ = fmt.Fprintln(out)
	rows := table.New(out, -1, "POD", "SHARE", "TO OWNERS/S", "TO STAND-INS/S", "UNANSWERED/S", "HOP BYTES/S", "FILLED/S",
		"FETCHED/S")
	for _, r := range list {
		cells := []string{r.pod, fmt.Sprintf("%.2f%%", 100*r.share)}
		for _, rate := range []float64{r.peer, r.standIn, r.unanswered} {
			cells = append(cells, fmt.Sprintf("%.1f", rate))
		}
		rows.Row(append(cells, fmt.Sprintf("%.1f MiB", r.bytes/(1<<20)), fmt.Sprintf("%.1f", r.filled),
			fmt.Sprintf("%.1f", r.fetched))...)
	}
	rows.Write()
}
