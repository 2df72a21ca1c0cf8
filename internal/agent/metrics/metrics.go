// Package metrics provides the Prometheus metrics of a pod, by disk. Metrics of requests are sampled: they count only
// a share of the requests. The metric cachenode_request_sampling_ratio shows this share. Events such as queue
// overflows are not sampled: each event is counted.
//
// It may import the API, agentapi and the packages of the agent that measure. A new metric goes beside similar
// metrics. Its help text explains its labels; make generate copies the text into the reference.
package metrics

import (
	"cmp"
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/disk"
	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/agent/resolver"
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// Metrics are the metrics of a pod. They are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	requests, bytes, originResponses, probeFailures, overflows, ioErrors, reloads *prometheus.CounterVec
	slices, sliceBytes, hops, hopBytes, unanswered, fills, removed, names         *prometheus.CounterVec
	firstByte, duration, probe                                                    *prometheus.HistogramVec
	rejected                                                                      prometheus.Counter
	config                                                                        *prometheus.GaugeVec
	sampling, nginxUp, share                                                      prometheus.Gauge

	breakers *breakers

	mutex  sync.Mutex
	loaded map[string]bool
	// disks contains the names of the known disks, and pods contains the ordinals of the known pods. Lines of nginx's
	// log about other disks and pods are not counted.
	disks, pods map[string]bool
}

const sampled = " Sampled: cachenode_request_sampling_ratio is the share of the requests that is counted."

// latencies are the bounds of the buckets in seconds. The first bound is a millisecond, the resolution of nginx's
// times, and the last is a minute.
var latencies = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60}

// New creates the metrics. They take the time from the clock c. At each scrape, disks is called for the states of the
// disks, and files for the estimates of their cache files.
func New(c clock.PassiveClock, disks func() map[string]disk.State, files func() map[string]Files) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencies}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("cachenode_requests_total",
			"Requests by the disk of their key and by the answer of the cache: nginx's $upstream_cache_status, "+
				"MEMORY (the memory tier), OTHER_DISK, UNCACHED or NONE; BYPASS for requests past the caches. "+
				"All requests with OTHER_DISK and UNCACHED are counted."+sampled, "disk", "cache"),
		bytes: counter("cachenode_response_bytes_total",
			"Bytes sent to clients, headers included."+sampled, "disk", "cache"),
		originResponses: counter("cachenode_origin_responses_total",
			"Requests that went to the origin, by the class of the status that the client got: 2xx, 3xx, 4xx or 5xx. "+
				"5xx includes an origin that did not answer. Requests that went past a disk are left out."+sampled, "class"),
		firstByte: histogram("cachenode_first_byte_seconds",
			"Time from a request's first byte to the response's header, by where the response came from: the cache, "+
				"the memory tier (memory), the origin, or, for requests that bypassed their disk, elsewhere. "+
				"All requests with elsewhere are counted."+sampled, "disk", "from"),
		duration: histogram("cachenode_request_duration_seconds",
			"Time from a request's first byte to the response's last."+sampled, "disk", "from"),
		slices: counter("cachenode_slices_fetched_total",
			"Slices that were fetched from the origin, see cache.slice."+sampled, "disk"),
		sliceBytes: counter("cachenode_slice_bytes_fetched_total",
			"Bytes of the slices that were fetched from the origin, headers included."+sampled, "disk"),
		hops: counter("cachenode_hops_total",
			"Requests that another pod answered: the owner of the key (peer) or its stand-in (standin), "+
				"by that pod's ordinal, and by how that pod got the response: nginx's $upstream_cache_status there, UNCACHED or "+
				"NONE. That pod counts them too, in cachenode_requests_total."+sampled, "hop", "ordinal", "cache"),
		hopBytes: counter("cachenode_hop_bytes_total",
			"Bytes of responses from other pods, by that pod's ordinal, headers included."+sampled, "hop", "ordinal"),
		unanswered: counter("cachenode_hops_unanswered_total",
			"Requests whose key belongs to another pod that did not answer in time or at all, by that pod's ordinal. "+
				"The stand-in answered them, which can be this pod. "+
				"nginx leaves such a pod alone for ten seconds at a time."+sampled, "ordinal"),
		fills: counter("cachenode_fills_total",
			"Objects, or slices of them, that were stored after their keys had moved from another pod or disk, by where they "+
				"came from: peer (that pod), disk (that disk) or origin.", "source"),
		probe: histogram("cachenode_disk_probe_duration_seconds",
			"Time that a probe took to write, sync and read a file.", "disk"),
		probeFailures: counter("cachenode_disk_probe_failures_total",
			"Probes that failed, by reason.", "disk", "reason"),
		overflows: counter("cachenode_thread_pool_overflows_total",
			"Tasks that found the queue of a disk's thread pool full.", "disk"),
		ioErrors: counter("cachenode_disk_errors_total",
			"Lines of nginx's error log about a failed system call on a disk.", "disk"),
		removed: counter("cachenode_cache_files_removed_total",
			"Files that the agent removed from a disk's cache, but not for a purge, by reason: foreign (the key is elsewhere "+
				"now), stale (for an hour longer than it may be served), "+
				"cut (a crash of the node may have cut it), hidden (of a generation of keys that is not used any more) or "+
				"orphan (a temporary file of a process of nginx that was killed).",
			"disk", "reason"),
		reloads: counter("cachenode_reloads_total",
			"Configurations that the agent gave to nginx, by result: taken, refused or failed.", "result"),
		names: counter("cachenode_name_lookups_total",
			"Answers of the agent to nginx's questions for the address of a name, by result: resolved, "+
				"absent (there is no such name or address), denied (only addresses where no origin may be), nobody (a pod that "+
				"has no address now) or failed (no name server answers; nginx keeps the addresses that it has).", "result"),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cachenode_uncached_rejected_total",
			Help: "Requests past their own disk that got 503, " +
				"because origin.fallbackConcurrency others waited for the origin.",
		}),
		config: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cachenode_config_info", Help: "1 for the revision of the configuration that nginx runs.",
		}, []string{"revision"}),
		sampling: gauge("cachenode_request_sampling_ratio", "Share of the requests that nginx reports, from 0 to 1."),
		nginxUp:  gauge("cachenode_nginx_up", "1 if nginx answers on its private port."),
		share: gauge("cachenode_key_share_ratio",
			"Share of the keys that the pod owns among the pods that share them, from 0 to 1; 1 with routing.mode Local."),
		breakers: newBreakers(c),
		loaded:   map[string]bool{},
		disks:    map[string]bool{agentapi.NoDisk: true},
		pods:     map[string]bool{},
	}
	for _, result := range []string{Taken, Refused, Failed} {
		m.reloads.WithLabelValues(result)
	}
	for _, result := range []resolver.Result{
		resolver.Resolved, resolver.Absent, resolver.OnlyDenied, resolver.NoPod, resolver.Failed,
	} {
		m.names.WithLabelValues(string(result))
	}
	for _, source := range []string{agentapi.FromPeer, agentapi.FromDisk, agentapi.FromOrigin} {
		m.fills.WithLabelValues(source)
	}
	for _, class := range []string{"2xx", "3xx", "4xx", "5xx"} { // a rate needs a first value
		m.originResponses.WithLabelValues(class)
	}
	m.registry.MustRegister(m.requests, m.bytes, m.slices, m.sliceBytes, m.hops, m.hopBytes, m.unanswered, m.fills,
		m.share, m.originResponses, m.firstByte, m.duration, m.probe, m.probeFailures, m.overflows, m.ioErrors,
		m.removed, m.reloads, m.names, m.rejected,
		m.config, m.sampling, m.nginxUp, m.breakers,
		&diskCollector{clock: c, disks: disks, files: files, loaded: m.isLoaded},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// maxScrapes is the largest number of scrapes that are answered at the same time. Further scrapes get a 503 at once.
const maxScrapes = 8

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// Gatherer returns the registry of the metrics, for tests and for the agent.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Name counts an answer to a DNS query of nginx, by its result.
func (m *Metrics) Name(r resolver.Result) { m.names.WithLabelValues(string(r)).Inc() }

// Register adds a collector, such as nginx's own counters.
func (m *Metrics) Register(c prometheus.Collector) { m.registry.MustRegister(c) }

// sources maps the tags of nginx's log lines to values of the label source.
var sources = map[string]string{
	agentapi.TagFilled: agentapi.FromPeer, agentapi.TagFilledFromDisk: agentapi.FromDisk,
	agentapi.TagUnfilled: agentapi.FromOrigin,
}

// Request counts a request, or a slice that was fetched for a request. It does not count a line about an unknown disk
// or pod, so that no text in nginx's log can create a time series.
func (m *Metrics) Request(r nginxlog.Request) {
	if source, isFill := sources[r.Tag]; isFill {
		m.fills.WithLabelValues(source).Inc()
		return
	}
	if !m.knows(m.disks, r.Disk) {
		return
	}
	switch r.Tag {
	case agentapi.TagSlice: // the request that needed the slice is counted too
		m.slices.WithLabelValues(r.Disk).Inc()
		m.sliceBytes.WithLabelValues(r.Disk).Add(float64(r.Bytes))
		return
	case agentapi.TagPeer, agentapi.TagStandIn, agentapi.TagAlone:
		if m.knows(m.pods, r.Owner) && (r.StandIn == "" || m.knows(m.pods, r.StandIn)) {
			m.hop(r)
		}
		return
	}
	if m.isRepeated(r) {
		return
	}
	cache, from := r.Cache, "origin"
	if agentapi.IsHit(cache) {
		from = "cache"
	}
	// Requests that bypass their disk get labels of their own: nginx reports all of them, so they would outweigh the
	// sample of the other requests.
	switch {
	case r.Tag == agentapi.TagOtherDisk:
		cache, from = agentapi.CacheOtherDisk, "elsewhere"
	case r.Tag == agentapi.TagUncached:
		cache, from = agentapi.CacheUncached, "elsewhere"
	case r.Tag == agentapi.TagMemory:
		cache, from = agentapi.CacheMemory, "memory"
	case r.Tag == agentapi.TagPassed:
		cache = agentapi.CachePassed
	case cache == "":
		cache = agentapi.CacheNone
	}
	m.requests.WithLabelValues(r.Disk, cache).Inc()
	m.bytes.WithLabelValues(r.Disk, cache).Add(float64(r.Bytes))
	m.firstByte.WithLabelValues(r.Disk, from).Observe(r.FirstByte.Seconds())
	m.duration.WithLabelValues(r.Disk, from).Observe(r.Duration.Seconds())
	if class := r.Status / 100; from == "origin" && 2 <= class && class <= 5 {
		m.originResponses.WithLabelValues(strconv.Itoa(class) + "xx").Inc()
	}
}

// isRepeated reports whether r repeats the report of a rejected request. nginx can report a rejected request several
// times, but only once under TagOtherDisk or TagUncached. For this one report, isRepeated counts a rejected request and
// returns false. It also returns false for a request that was not rejected.
func (m *Metrics) isRepeated(r nginxlog.Request) bool {
	if !r.Rejected {
		return false
	}
	if r.Tag != agentapi.TagOtherDisk && r.Tag != agentapi.TagUncached {
		return true
	}
	m.rejected.Inc()
	return false
}

// hop counts a request whose key another pod owns.
func (m *Metrics) hop(r nginxlog.Request) {
	m.breakers.report(r)
	pod := r.Owner
	if r.Tag != agentapi.TagPeer {
		pod = r.StandIn
		m.unanswered.WithLabelValues(r.Owner).Inc()
	}
	if r.Tag == agentapi.TagAlone {
		return // no hop
	}
	m.hops.WithLabelValues(r.Tag, pod, cmp.Or(r.Cache, agentapi.CacheNone)).Inc()
	m.hopBytes.WithLabelValues(r.Tag, pod).Add(float64(r.Bytes))
}

// Error counts an event of a disk from the error log. Like [Metrics.Request], it does not count an event of an
// unknown disk.
func (m *Metrics) Error(e nginxlog.Error) {
	if !m.knows(m.disks, e.Disk) {
		return
	}
	switch e.Event {
	case nginxlog.QueueOverflow:
		m.overflows.WithLabelValues(e.Disk).Inc()
	case nginxlog.Failure:
		m.ioErrors.WithLabelValues(e.Disk).Inc()
	case nginxlog.IndexLoaded:
		m.SetLoaded(e.Disk, true)
	case nginxlog.NoEvent, nginxlog.Exhausted:
	}
}

// Probe counts a probe of a disk.
func (m *Metrics) Probe(name string, s disk.Sample) {
	m.probe.WithLabelValues(name).Observe(s.Latency.Seconds())
	if s.Reason != "" {
		m.probeFailures.WithLabelValues(name, string(s.Reason)).Inc()
	}
}

// Results of giving a configuration to nginx.
const (
	Taken   = "taken"
	Refused = "refused"
	Failed  = "failed"
)

// Reload counts an attempt to give a configuration to nginx. result is Taken, Refused or Failed.
func (m *Metrics) Reload(result string) { m.reloads.WithLabelValues(result).Inc() }

// Removed counts a file that was removed from a disk for another reason than a purge.
func (m *Metrics) Removed(name string, reason sweep.Reason) {
	m.removed.WithLabelValues(name, string(reason)).Inc()
}

// Pods adds pods of the fleet to the known pods, by their ordinals. Pods that have left the fleet stay known.
func (m *Metrics) Pods(ordinals []int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, ordinal := range ordinals {
		m.pods[strconv.Itoa(ordinal)] = true
	}
}

func (m *Metrics) knows(all map[string]bool, name string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return all[name]
}

// Disk adds a disk to the known disks. It creates the disk's counters before anything is counted, because a rate
// needs a first value.
func (m *Metrics) Disk(name string) {
	m.mutex.Lock()
	m.disks[name] = true
	m.mutex.Unlock()
	m.overflows.WithLabelValues(name)
	m.ioErrors.WithLabelValues(name)
	for _, reason := range sweep.Reasons() {
		m.removed.WithLabelValues(name, string(reason))
	}
	for _, reason := range []v1alpha1.DiskReason{v1alpha1.DiskIOError, v1alpha1.DiskSlow} {
		m.probeFailures.WithLabelValues(name, string(reason))
	}
	for _, cache := range []string{"HIT", "MISS", agentapi.CacheMemory, agentapi.CacheOtherDisk, agentapi.CacheUncached} {
		m.requests.WithLabelValues(name, cache)
		m.bytes.WithLabelValues(name, cache)
	}
}

// Running records the revision that nginx runs, and the percentage of the requests that nginx reports. revision is ""
// while nginx does not answer.
func (m *Metrics) Running(revision string, samplingPercent int32) {
	m.config.Reset()
	m.nginxUp.Set(0)
	if revision != "" {
		m.config.WithLabelValues(revision).Set(1)
		m.nginxUp.Set(1)
	}
	m.sampling.Set(float64(samplingPercent) / 100)
}

// SetLoaded records whether nginx has read the index of a disk's cache since the last start of nginx and the last
// return of the disk.
func (m *Metrics) SetLoaded(name string, loaded bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.loaded[name] = loaded
}

// Share records the share of the keys that the pod owns, from 0 to 1.
func (m *Metrics) Share(share float64) { m.share.Set(share) }

func (m *Metrics) isLoaded(name string) (loaded, known bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	loaded, known = m.loaded[name]
	return loaded, known
}
