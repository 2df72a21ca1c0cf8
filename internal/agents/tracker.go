package agents

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/pki"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

const (
	// calmInterval is the time between two reads of an agent. hurriedInterval is the time between two reads while the
	// pod is expected to take a revision.
	calmInterval    = 5 * time.Second
	hurriedInterval = 100 * time.Millisecond
	// readTimeout is the time limit of a read. maxBackoff is the longest time between two reads of an agent that does
	// not answer.
	readTimeout = 2 * time.Second
	maxBackoff  = time.Minute
	// readers is the number of agents of each queue that are read at the same time, whatever the number of pods. One
	// queue contains the agents that answer. The other queue contains the agents that do not answer or were never read.
	readers = 12
	// readersEach is the maximum number of readers of a queue that one CacheNode may occupy. It keeps slow agents of one
	// CacheNode from delaying those of others.
	readersEach = 4
	// newsBurst is the number of changed reports of an agent that are taken at once. One more changed report is taken
	// every newsInterval. Each changed report causes a pass over the CacheNode, and perhaps a write of its status.
	newsBurst    = 20
	newsInterval = 5 * time.Second
	// silence is the time after which an agent that fails to answer counts as silent.
	silence = 15 * time.Second
)

// Tracker reads the reports of the pods' agents, and sends purges to the agents. A pass over a CacheNode never waits
// for an agent. It uses the last report, and runs again when a report has changed. A pass over purges waits for a
// moment: see [Tracker.Purge]. A few goroutines read all agents. An agent that does not answer waits in a separate
// queue, and is read less and less often. Tracker is safe for concurrent use.
type Tracker struct {
	// Calls are the functions by which the Tracker sends requests. To replace them, set Calls before the controller
	// starts.
	Calls Calls

	clock clock.WithTicker
	// answering contains the pods whose agents answered the last read. others contains all other pods.
	answering, others Queue

	mutex sync.Mutex
	known map[types.NamespacedName]*agent
	// pods contains the pods of each CacheNode. Each of these pods has an entry in known.
	pods map[types.NamespacedName]map[types.NamespacedName]bool
	// whereabouts contains, for each CacheNode whose agents need addresses, the addresses of its pods. numbered is the
	// last number that was given to such a set of addresses.
	whereabouts map[types.NamespacedName]whereabouts
	numbered    int64
	// clients contains the client of each CacheNode, with the version of the Secret that contains its certificates.
	clients map[types.NamespacedName]versionedClient
	// reading contains, for each CacheNode and queue, the number of readers that the CacheNode occupies. waiting
	// contains, for each CacheNode and queue, the pods that wait for a reader.
	reading map[share]int
	waiting map[share][]types.NamespacedName
	// changes contains, for each CacheNode, the URLs at which clients have changed something.
	changes map[types.NamespacedName]*changes
	// onPurges is called when a pass over the purges of a CacheNode has something to do. It is nil if no function was set.
	onPurges func(cacheNode types.NamespacedName)
	// reconcile is the controller's queue.
	reconcile workqueue.TypedRateLimitingInterface[reconcile.Request]

	// errands run the requests that send purges, even after the end of a pass. sendable limits the number of bytes that
	// are being sent. late limits, for each CacheNode, the passes that are caused by answers after the end of a pass.
	errands  errands
	sendable *semaphore.Weighted
	late     map[types.NamespacedName]*rate.Limiter
}

// Calls are the functions that send requests to one agent. Tests replace them to simulate agents.
type Calls struct {
	// Report reads the agent's report.
	Report func(ctx context.Context, c *agentclient.Client, address string) (agentapi.Report, error)
	// Purge sends the part of the journal that the agent does not know.
	Purge func(ctx context.Context, c *agentclient.Client, address string, update purge.Update) (purge.Done, error)
	// Tell sends the addresses of the pods.
	Tell func(ctx context.Context, c *agentclient.Client, address string, addresses agentapi.Addresses) error
}

// Queue contains pods whose agents are to be read.
type Queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

type versionedClient struct {
	client  *agentclient.Client
	version string
}

// agent contains what is known about the agent of one pod.
type agent struct {
	Target
	cacheNode types.NamespacedName
	client    *agentclient.Client
	hurry     bool
	heard     heard
	// news limits the passes that the agent causes. untold is true after a change that caused no pass because of this
	// limit.
	news   *rate.Limiter
	untold bool
	// awaited is the revision that Await has set last. isAwaited is true until a report contains it.
	awaited   string
	isAwaited bool
	// unsafe is the number of the last URL that was taken from a report. urls limits how often URLs are taken, because
	// each time causes a pass over all purges of the CacheNode.
	unsafe int64
	urls   *rate.Limiter
	purged purged
	Observation
}

// New returns a Tracker that begins to read when the controller starts. The clock determines when an agent is read
// again, and how old an answer is. newQueue creates the two queues, first the queue of the agents that answer. If
// newQueue is nil, the queues use the clock.
func New(clock clock.WithTicker, newQueue func(workqueue.TypedRateLimiter[types.NamespacedName]) Queue) *Tracker {
	if newQueue == nil {
		newQueue = func(retries workqueue.TypedRateLimiter[types.NamespacedName]) Queue {
			return workqueue.NewTypedRateLimitingQueueWithConfig(retries,
				workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Clock: clock})
		}
	}
	backoff := func() workqueue.TypedRateLimiter[types.NamespacedName] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](readTimeout, maxBackoff)
	}
	return &Tracker{
		Calls: Calls{
			Report: func(ctx context.Context, c *agentclient.Client, address string) (agentapi.Report, error) {
				return c.Report(ctx, address)
			},
			Purge: func(ctx context.Context, c *agentclient.Client, address string, u purge.Update) (purge.Done, error) {
				return c.Purge(ctx, address, u)
			},
			Tell: func(ctx context.Context, c *agentclient.Client, address string, a agentapi.Addresses) error {
				return c.Tell(ctx, address, a)
			},
		},
		clock: clock, answering: newQueue(backoff()), others: newQueue(backoff()),
		known:   map[types.NamespacedName]*agent{},
		pods:    map[types.NamespacedName]map[types.NamespacedName]bool{},
		clients: map[types.NamespacedName]versionedClient{}, whereabouts: map[types.NamespacedName]whereabouts{},
		reading: map[share]int{}, waiting: map[share][]types.NamespacedName{},
		errands: make(errands), sendable: semaphore.NewWeighted(sendBytes),
		late: map[types.NamespacedName]*rate.Limiter{}, changes: map[types.NamespacedName]*changes{},
	}
}

// Start implements source.Source. It starts the readers. When a report has changed, a reader adds the CacheNode to the
// controller's queue.
func (t *Tracker) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	t.mutex.Lock()
	t.reconcile = queue
	t.mutex.Unlock()
	for _, pods := range []Queue{t.answering, t.others} {
		context.AfterFunc(ctx, pods.ShutDown)
		for range readers {
			go func() {
				for t.next(ctx, pods) {
				}
			}()
		}
	}
	return nil
}

// queueOf returns the queue in which a pod waits until its agent is read.
func (t *Tracker) queueOf(known *agent) Queue {
	if known.Err == nil && !known.Answered.IsZero() {
		return t.answering
	}
	return t.others
}

// Hurry sets whether the agents of a CacheNode's pods are read more often than usual.
func (t *Tracker) Hurry(cacheNode types.NamespacedName, hurry bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for pod := range t.pods[cacheNode] {
		known := t.known[pod]
		if queue := t.queueOf(known); hurry && !known.hurry && queue == t.answering {
			queue.Add(pod)
		}
		known.hurry = hurry
	}
}

// Await sets the revision that the pods of a CacheNode are to run. The first report of each pod that contains it causes
// a pass even if the agent has reached the limit of passes that it may cause. So many edits in a row do not slow each
// other down, and an agent that changes its report all the time gains nothing.
func (t *Tracker) Await(cacheNode types.NamespacedName, revision string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for pod := range t.pods[cacheNode] {
		if known := t.known[pod]; known.awaited != revision {
			known.awaited, known.isAwaited = revision, true
		}
	}
}

// Track replaces the pods of a CacheNode. It returns the last observation of each agent by pod name, except for pods
// that are being deleted. A pod that belonged to another CacheNode counts as new.
func (t *Tracker) Track(
	cacheNode types.NamespacedName, c *agentclient.Client, targets []Target,
) map[string]Observation {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	wanted, isNew := map[types.NamespacedName]bool{}, false
	observations := map[string]Observation{}
	for _, target := range targets {
		wanted[target.Pod] = true
		known := t.known[target.Pod]
		if known == nil || known.UID != target.UID || known.cacheNode != cacheNode {
			if known != nil && known.cacheNode != cacheNode {
				delete(t.pods[known.cacheNode], target.Pod)
			}
			known = &agent{
				Observation: Observation{Tracked: t.clock.Now()},
				news:        rate.NewLimiter(rate.Every(newsInterval), newsBurst),
				urls:        rate.NewLimiter(rate.Every(newsInterval), newsBurst),
				purged:      purged{problem: NotAnswered, told: t.changesOf(cacheNode).last},
			}
			t.known[target.Pod] = known
		}
		if known.Target != target || (known.client == nil && c != nil) {
			t.others.Forget(target.Pod)
			t.queueOf(known).Add(target.Pod)
			isNew = true
		}
		known.Target, known.cacheNode, known.client = target, cacheNode, c
		if !target.Leaving {
			observations[target.Pod.Name] = known.Observation
		}
	}
	for pod := range t.pods[cacheNode] {
		if !wanted[pod] {
			delete(t.known, pod)
		}
	}
	if t.pods[cacheNode] = wanted; len(wanted) == 0 {
		delete(t.pods, cacheNode)
		delete(t.changes, cacheNode)
	}
	if isNew && t.onPurges != nil {
		t.onPurges(cacheNode)
	}
	return observations
}

// Forget ends the reads for a CacheNode that no longer exists.
func (t *Tracker) Forget(cacheNode types.NamespacedName) {
	t.Track(cacheNode, nil, nil)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.clients, cacheNode)
	delete(t.whereabouts, cacheNode)
	delete(t.late, cacheNode)
}

// String names the source in the controller's log.
func (t *Tracker) String() string { return fmt.Sprintf("agents: %T", t) }

// Assigned notes the time at which a pod was given a revision, or was nudged.
func (t *Tracker) Assigned(pod types.NamespacedName, at time.Time, nudged bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if known := t.known[pod]; known != nil {
		known.AssignedAt = at
		known.Nudges++
		if !nudged {
			known.Nudges = 0
		}
	}
}

// Observations returns the last observation of each agent of a CacheNode by pod name, except for pods that are being
// deleted.
func (t *Tracker) Observations(cacheNode types.NamespacedName) map[string]Observation {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	list := map[string]Observation{}
	for pod := range t.pods[cacheNode] {
		if known := t.known[pod]; !known.Leaving {
			list[pod.Name] = known.Observation
		}
	}
	return list
}

// Client returns the client for the agents of a CacheNode. It creates a new client after the certificates have
// changed. It returns nil if the certificates are unusable.
func (t *Tracker) Client(cacheNode types.NamespacedName, secret *corev1.Secret) *agentclient.Client {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if known := t.clients[cacheNode]; known.client != nil && known.version == secret.ResourceVersion {
		return known.client
	}
	config, err := pki.Client(secret.Data, naming.AgentName(cacheNode.Namespace, cacheNode.Name))
	if err != nil {
		return nil
	}
	t.clients[cacheNode] = versionedClient{client: agentclient.New(config), version: secret.ResourceVersion}
	return t.clients[cacheNode].client
}
