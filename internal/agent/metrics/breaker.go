package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// breakerTime is how long nginx does not ask a pod that has not answered (fail_timeout).
const breakerTime = 10 * time.Second

const breakerHelp = "1 while nginx does not ask a pod for the keys of a disk, because two requests in ten seconds " +
	"were not answered or the pod's name has no address; by the requests that nginx reports. 0 after ten seconds " +
	"without such a request."

var breakerOpen = prometheus.NewDesc("cachenode_hop_breaker_open", breakerHelp, []string{"ordinal", "disk"}, nil)

// breakers are what reports say about nginx's circuit breakers, of which there is one for each disk of each other pod.
// They are safe for concurrent use.
type breakers struct {
	clock clock.PassiveClock

	mutex sync.Mutex
	// skipped is when a request last skipped an owner; it is zero if the owner has been asked since.
	skipped map[breaker]time.Time
}

// breaker is that for a disk of a pod.
type breaker struct{ ordinal, disk string }

func newBreakers(c clock.PassiveClock) *breakers {
	return &breakers{clock: c, skipped: map[breaker]time.Time{}}
}

// report notes what became of a request for whose key another pod is asked. One that was not answered says nothing: it
// can have been the try after ten seconds.
func (b *breakers) report(r nginxlog.Request) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	of := breaker{r.Owner, r.Disk}
	switch {
	case r.SkipsOwner:
		b.skipped[of] = b.clock.Now()
	case r.Tag == agentapi.TagPeer && !b.skipped[of].IsZero():
		b.skipped[of] = time.Time{}
	}
}

// Describe implements prometheus.Collector.
func (b *breakers) Describe(to chan<- *prometheus.Desc) { to <- breakerOpen }

// Collect implements prometheus.Collector.
func (b *breakers) Collect(to chan<- prometheus.Metric) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for of, skipped := range b.skipped {
		open := 0.0
		if b.clock.Since(skipped) < breakerTime {
			open = 1
		}
		to <- prometheus.MustNewConstMetric(breakerOpen, prometheus.GaugeValue, open, of.ordinal, of.disk)
	}
}
