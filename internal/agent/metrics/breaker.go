package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// breakerTime is how long nginx does not ask a pod that has not answered (fail_timeout).
const breakerTime = 10 * time.Second

const breakerHelp = "1 while nginx does not ask a pod for the keys of a disk, because two requests in ten seconds " +
	"were not answered; as the last report of such a request says. 0 after ten seconds without one."

var breakerOpen = prometheus.NewDesc("cachenode_hop_breaker_open", breakerHelp, []string{"ordinal", "disk"}, nil)

// breakers are what reports say about nginx's circuit breakers, of which there is one for each disk of each other pod.
// They are safe for concurrent use.
type breakers struct {
	now func() time.Time

	mutex sync.Mutex
	// skipped is when a request last skipped an owner; it is zero if the owner has been asked since.
	skipped map[breaker]time.Time
}

// breaker is that for a disk of a pod.
type breaker struct{ ordinal, disk string }

func newBreakers(now func() time.Time) *breakers {
	return &breakers{now: now, skipped: map[breaker]time.Time{}}
}

// report notes whether a request skipped the owner of its key.
func (b *breakers) report(ordinal, disk string, skips bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	of := breaker{ordinal, disk}
	if skips {
		b.skipped[of] = b.now()
	} else if !b.skipped[of].IsZero() {
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
		if b.now().Sub(skipped) < breakerTime {
			open = 1
		}
		to <- prometheus.MustNewConstMetric(breakerOpen, prometheus.GaugeValue, open, of.ordinal, of.disk)
	}
}
