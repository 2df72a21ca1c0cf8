package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// breakerTime is the time for which nginx sends no requests to a pod that has not answered (fail_timeout).
const breakerTime = 10 * time.Second

const breakerHelp = "1 while nginx does not ask a pod for the keys of a disk, because two requests in ten seconds " +
	"were not answered or the pod's name has no address; by the requests that nginx reports. 0 after ten seconds " +
	"without such a request."

var breakerOpen = prometheus.NewDesc("cachenode_hop_breaker_open", breakerHelp, []string{"ordinal", "disk"}, nil)

// breakers records the states of nginx's circuit breakers, as far as nginx's log lines show them. There is one circuit
// breaker for each disk of each other pod. The type breakers is safe for concurrent use.
type breakers struct {
	clock clock.PassiveClock

	mutex sync.Mutex
	// skipped is the time at which a request last skipped the owner of its key; zero if the owner has answered since.
	skipped map[breaker]time.Time
}

// breaker identifies the circuit breaker for a disk of a pod.
type breaker struct{ ordinal, disk string }

func newBreakers(c clock.PassiveClock) *breakers {
	return &breakers{clock: c, skipped: map[breaker]time.Time{}}
}

// report records the result of a request whose key another pod owns. If nginx asked the owner and got no answer, report
// changes nothing: nginx may have sent this request to test the owner again after ten seconds.
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
