package controllers

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/pki"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

const (
	// calmInterval is the time between two reads of an agent; hurriedInterval is that time while a pod is to take a
	// revision.
	calmInterval    = 5 * time.Second
	hurriedInterval = 100 * time.Millisecond
	// readTimeout limits a read; maxBackoff limits the time between two reads of an agent that does not answer.
	readTimeout = 2 * time.Second
	maxBackoff  = time.Minute
	// readers is how many agents of each queue are read at once, whatever the number of pods. One queue has the agents
	// that answer, the other those that do not or were never tried.
	readers = 12
	// readersEach is how many readers of a queue one CacheNode may occupy, so that its slow agents leave some to others.
	readersEach = 4
	// newsBurst is how many changed reports of an agent are taken at once; one more is taken every newsInterval. Each
	// causes a pass over the CacheNode, and perhaps a write of its status.
	newsBurst    = 20
	newsInterval = 5 * time.Second
	// silence is how long an agent may fail to answer before it counts as silent.
	silence = 15 * time.Second
)

// Agents reads the reports of the pods' agents. A pass over a CacheNode never waits for an agent: it takes the last
// report, and runs again when a report has changed. A few goroutines read all agents. An agent that does not answer
// waits in a separate queue, and is asked less and less often. Agents is safe for concurrent use.
type Agents struct {
	clock clock.WithTicker
	// read reads one report; tests may replace it.
	read func(ctx context.Context, c *agentclient.Client, address string) (agentapi.Report, error)
	// send sends purges to one agent; tests may replace it.
	send func(ctx context.Context, c *agentclient.Client, address string, update purge.Update) (purge.Done, error)

	// inform tells one agent where the pods are; tests may replace it.
	inform func(ctx context.Context, c *agentclient.Client, address string, addresses agentapi.Addresses) error

	// answering has the pods whose agents answered last time; others has the rest.
	answering, others workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mutex sync.Mutex
	known map[types.NamespacedName]*agent
	// pods has the pods of each CacheNode; each of them is in known.
	pods map[types.NamespacedName]map[types.NamespacedName]bool
	// whereabouts are where the pods of a CacheNode are, if its agents are to know. numbered is their greatest number.
	whereabouts map[types.NamespacedName]whereabouts
	numbered    int64
	// clients has the client of each CacheNode, with the version of the Secret that its certificates are from.
	clients map[types.NamespacedName]versionedClient
	// reading counts the readers of a queue that a CacheNode occupies; waiting has its pods that wait for a reader.
	reading map[share]int
	waiting map[share][]types.NamespacedName
	// unsafe is called with URLs of reports at which clients have changed something; nil calls nobody.
	unsafe func(cacheNode types.NamespacedName, urls []string)
	// reconcile is the controller's queue.
	reconcile workqueue.TypedRateLimitingInterface[reconcile.Request]
}

type versionedClient struct {
	client  *agentclient.Client
	version string
}

// share identifies the readers that one CacheNode occupies in one queue. The queues are counted separately, so silent
// agents do not hold up those that answer.
type share struct {
	answering bool
	cacheNode types.NamespacedName
}

// agent is what is known of the agent of one pod.
type agent struct {
	Target
	cacheNode types.NamespacedName
	client    *agentclient.Client
	hurry     bool
	heard     heard
	// news limits the passes that the agent causes; untold is true after a change that this limit kept from causing one.
	news   *rate.Limiter
	untold bool
	// unsafe is the number of the last URL of a report that was taken. urls limits how often some are taken: each time,
	// all purges of the CacheNode have a pass.
	unsafe int64
	urls   *rate.Limiter
	Observation
}

// Target is a pod whose agent is to be read.
type Target struct {
	Pod types.NamespacedName
	UID types.UID
	// IP is the pod's address; "" while it has none.
	IP string
	// Ready is true for a pod that is ready. A pod that becomes ready is read at once, however often its agent did not
	// answer before.
	Ready bool
}

// Observation is the result of the last reads of an agent.
type Observation struct {
	Report agentapi.Report
	// Answered is the time of the last answer; zero if there was none. Tracked is since when the agent is read.
	Answered, Tracked time.Time
	// AssignedAt is when this operator last gave the pod a revision or nudged it; zero if it did neither.
	AssignedAt time.Time
	// Nudges is how often the pod was nudged since it was given the revision.
	Nudges int
	// Err is why the last read failed; nil if it did not.
	Err error
}

// NewAgents returns Agents that begin to read when the controller starts. The clock says when an agent is read again,
// and how old an answer is.
func NewAgents(clock clock.WithTicker) *Agents {
	return &Agents{
		clock: clock,
		read: func(ctx context.Context, c *agentclient.Client, address string) (agentapi.Report, error) {
			return c.Report(ctx, address)
		},
		send: func(ctx context.Context, c *agentclient.Client, address string, update purge.Update) (purge.Done, error) {
			return c.Purge(ctx, address, update)
		},
		inform: func(ctx context.Context, c *agentclient.Client, address string, addresses agentapi.Addresses) error {
			return c.Tell(ctx, address, addresses)
		},
		answering: newQueue(clock), others: newQueue(clock),
		known:   map[types.NamespacedName]*agent{},
		pods:    map[types.NamespacedName]map[types.NamespacedName]bool{},
		clients: map[types.NamespacedName]versionedClient{}, whereabouts: map[types.NamespacedName]whereabouts{},
		reading: map[share]int{}, waiting: map[share][]types.NamespacedName{},
	}
}

// Start implements source.Source. It starts the readers, which add the CacheNodes of changed reports to the
// controller's queue.
func (a *Agents) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	a.mutex.Lock()
	a.reconcile = queue
	a.mutex.Unlock()
	for _, pods := range []workqueue.TypedRateLimitingInterface[types.NamespacedName]{a.answering, a.others} {
		context.AfterFunc(ctx, pods.ShutDown)
		for range readers {
			go func() {
				for a.next(ctx, pods) {
				}
			}()
		}
	}
	return nil
}

func newQueue(clock clock.WithTicker) workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](readTimeout, maxBackoff)
	return workqueue.NewTypedRateLimitingQueueWithConfig(backoff,
		workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Clock: clock})
}

// queueOf returns the queue in which a pod waits to be read.
func (a *Agents) queueOf(known *agent) workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	if known.Err == nil && !known.Answered.IsZero() {
		return a.answering
	}
	return a.others
}

// Hurry makes the reads of a CacheNode's pods frequent, or ends that.
func (a *Agents) Hurry(cacheNode types.NamespacedName, hurry bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for pod := range a.pods[cacheNode] {
		known := a.known[pod]
		if queue := a.queueOf(known); hurry && !known.hurry && queue == a.answering {
			queue.Add(pod)
		}
		known.hurry = hurry
	}
}

// Track replaces the pods of a CacheNode, and returns what is known of them by name.
func (a *Agents) Track(cacheNode types.NamespacedName, c *agentclient.Client, targets []Target) map[string]Observation {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	wanted := map[types.NamespacedName]bool{}
	observations := map[string]Observation{}
	for _, target := range targets {
		wanted[target.Pod] = true
		known := a.known[target.Pod]
		if known == nil || known.UID != target.UID {
			known = &agent{
				Observation: Observation{Tracked: a.clock.Now()},
				news:        rate.NewLimiter(rate.Every(newsInterval), newsBurst),
				urls:        rate.NewLimiter(rate.Every(newsInterval), newsBurst),
			}
			a.known[target.Pod] = known
		}
		if known.Target != target || (known.client == nil && c != nil) {
			a.others.Forget(target.Pod)
			a.queueOf(known).Add(target.Pod)
		}
		known.Target, known.cacheNode, known.client = target, cacheNode, c
		observations[target.Pod.Name] = known.Observation
	}
	for pod := range a.pods[cacheNode] {
		if !wanted[pod] {
			delete(a.known, pod)
		}
	}
	if a.pods[cacheNode] = wanted; len(wanted) == 0 {
		delete(a.pods, cacheNode)
	}
	return observations
}

// Forget ends the reads for a CacheNode that no longer exists.
func (a *Agents) Forget(cacheNode types.NamespacedName) {
	a.Track(cacheNode, nil, nil)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	delete(a.clients, cacheNode)
	delete(a.whereabouts, cacheNode)
}

// next reads one agent. It returns false when the queue was shut down.
func (a *Agents) next(ctx context.Context, pods workqueue.TypedRateLimitingInterface[types.NamespacedName]) bool {
	pod, end := pods.Get()
	if end {
		return false
	}
	defer pods.Done(pod)
	a.mutex.Lock()
	known := a.known[pod]
	var current agent
	if known != nil {
		current = *known
	}
	// If the agent is not read now, Track adds it again.
	mayRead := known != nil && current.IP != "" && current.client != nil && a.queueOf(&current) == pods
	of := share{answering: pods == a.answering, cacheNode: current.cacheNode}
	mayRead = mayRead && a.occupy(of, pod)
	a.mutex.Unlock()
	if !mayRead {
		return true
	}
	defer a.leave(of)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	report, err := a.read(ctx, current.client, net.JoinHostPort(current.IP, strconv.Itoa(layout.AgentPort)))
	if err == nil {
		a.tell(ctx, pod, current, report)
	}
	a.note(pod, current.UID, report, err)
	return true
}

// occupy takes a reader for a pod. If none is free, it returns false and the pod waits for one. The caller holds the
// mutex.
func (a *Agents) occupy(of share, pod types.NamespacedName) bool {
	if a.reading[of] >= readersEach {
		a.waiting[of] = append(a.waiting[of], pod)
		return false
	}
	a.reading[of]++
	return true
}

// leave frees a reader and wakes the next pod that waits. The last reader wakes all waiting pods, because a pod that
// was woken before may have been deleted.
func (a *Agents) leave(of share) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.reading[of]--
	woken := a.waiting[of][:min(1, len(a.waiting[of]))]
	if a.reading[of] == 0 {
		delete(a.reading, of)
		woken = a.waiting[of]
	}
	if a.waiting[of] = a.waiting[of][len(woken):]; len(a.waiting[of]) == 0 {
		delete(a.waiting, of)
	}
	for _, pod := range woken {
		if known := a.known[pod]; known != nil {
			a.queueOf(known).Add(pod)
		}
	}
}

// onUnsafe sets the function that is called with URLs at which clients have changed something.
func (a *Agents) onUnsafe(call func(cacheNode types.NamespacedName, urls []string)) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.unsafe = call
}

// note stores the result of a read. A change causes a pass over the CacheNode, as often as the agent may cause one.
func (a *Agents) note(pod types.NamespacedName, uid types.UID, report agentapi.Report, err error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	known := a.known[pod]
	if known == nil || known.UID != uid {
		return
	}
	if err == nil {
		a.takeUnsafe(known, report.Unsafe)
		// Purges are no reason for a pass over the CacheNode.
		report.Unsafe = nil
		known.Report.Purged, known.Report.PurgeHead = report.Purged, report.PurgeHead
	}
	now := a.clock.Now()
	changed := err == nil && (known.Answered.IsZero() || !reflect.DeepEqual(known.Report, report))
	news := changed || known.untold || (err == nil) != (known.Err == nil)
	known.untold = news && !known.news.AllowN(now, 1)
	known.Err = err
	if err != nil {
		known.heard = heard{} // it may be another process when it answers again
		a.others.AddRateLimited(pod)
	} else {
		if changed && !known.untold { // otherwise a later read finds the change again
			known.Report = report
		}
		known.Answered = now
		a.others.Forget(pod)
		interval := calmInterval
		if known.hurry {
			interval = hurriedInterval
		}
		a.answering.AddAfter(pod, interval)
	}
	if news && !known.untold && a.reconcile != nil {
		a.reconcile.Add(reconcile.Request{NamespacedName: known.cacheNode})
	}
}

// takeUnsafe takes the URLs of a report that are new, as often as the agent may have some taken. A later report has
// what is left. The caller holds the mutex.
func (a *Agents) takeUnsafe(known *agent, list []agentapi.UnsafeURL) {
	urls, last := newlyUnsafe(list, known.unsafe)
	if len(urls) == 0 || !known.urls.AllowN(a.clock.Now(), 1) {
		return
	}
	known.unsafe = last
	if a.unsafe != nil {
		a.unsafe(known.cacheNode, urls)
	}
}

// isSilent returns true for an agent whose last read failed and that has not answered for longer than [silence].
func (o Observation) isSilent(now time.Time) bool {
	if o.Err == nil {
		return false
	}
	last := o.Answered
	if last.IsZero() {
		last = o.Tracked
	}
	return now.Sub(last) > silence
}

// isSilentIn returns isSilent for the agent of a pod. The agent is not silent while the pod has been ready for less
// than [silence], however long the pod took to start.
func (o Observation) isSilentIn(pod *corev1.Pod, now time.Time) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) <= silence {
			return false
		}
	}
	return o.isSilent(now)
}

// String names the source in the controller's log.
func (a *Agents) String() string { return fmt.Sprintf("agents: %T", a) }

// client returns the client for the agents of a CacheNode, renewed when its certificates change; nil if they are
// unusable.
func (a *Agents) client(cacheNode types.NamespacedName, secret *corev1.Secret) *agentclient.Client {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if known := a.clients[cacheNode]; known.client != nil && known.version == secret.ResourceVersion {
		return known.client
	}
	config, err := pki.Client(secret.Data, naming.AgentName(cacheNode.Namespace, cacheNode.Name))
	if err != nil {
		return nil
	}
	a.clients[cacheNode] = versionedClient{client: agentclient.New(config), version: secret.ResourceVersion}
	return a.clients[cacheNode].client
}
