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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

const (
	// calmInterval is the time between two reads of an agent; hurriedInterval that while a pod is to take a revision.
	calmInterval    = 5 * time.Second
	hurriedInterval = 100 * time.Millisecond
	// readTimeout bounds a read; maxBackoff the time between two tries of an agent that does not answer.
	readTimeout = 2 * time.Second
	maxBackoff  = time.Minute
	// readers is how many agents are read at once, whatever the number of pods: so many that answer, and as many that do
	// not, or were never tried.
	readers = 12
	// readersEach is how many readers of a queue one CacheNode may occupy, so that its slow agents leave some to others.
	readersEach = 4
	// newsBurst is how many changed reports of an agent are taken in at once, newsInterval the time for one more: each is a
	// pass over the CacheNode and may be a write of its status.
	newsBurst    = 20
	newsInterval = 5 * time.Second
	// silence is after how long without an answer an agent counts as one that does not answer.
	silence = 15 * time.Second
)

// Agents reads the reports of the pods' agents. A pass over a CacheNode never waits for one: it takes what was read last,
// and is called again when a report has changed. Agents are read by a few goroutines, not by one for each pod, and one that
// does not answer waits in a queue of its own and is asked less and less often. It is safe for concurrent use.
type Agents struct {
	// read reads one report; tests may replace it.
	read func(ctx context.Context, c *agentclient.Client, address string) (agentapi.Report, error)

	// answering has the pods whose agents answered last time, others the rest.
	answering, others workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mutex sync.Mutex
	known map[types.NamespacedName]*agent
	// pods are those of each CacheNode; each is in known.
	pods map[types.NamespacedName]map[types.NamespacedName]bool
	// clients are those of the CacheNodes, by the version of the Secret with their certificates.
	clients map[types.NamespacedName]versionedClient
	// reading counts the readers of a queue that a CacheNode occupies, waiting has its pods that wait for one.
	reading map[share]int
	waiting map[share][]types.NamespacedName
	// reconcile is the controller's queue.
	reconcile workqueue.TypedRateLimitingInterface[reconcile.Request]
}

type versionedClient struct {
	client  *agentclient.Client
	version string
}

// share is what one CacheNode has of the readers of a queue: silent agents must not hold up those that answer.
type share struct {
	answering bool
	cacheNode types.NamespacedName
}

// agent is one pod's.
type agent struct {
	Target
	cacheNode types.NamespacedName
	client    *agentclient.Client
	hurry     bool
	// news bounds the passes that the agent causes; untold is true after one that was not made.
	news   *rate.Limiter
	untold bool
	Observation
}

// Target is a pod whose agent is to be read.
type Target struct {
	Pod types.NamespacedName
	UID types.UID
	// IP is the pod's address; "" while it has none.
	IP string
}

// Observation is what was read of an agent last.
type Observation struct {
	Report agentapi.Report
	// Answered is when it was read; the zero time while it never was. Tracked is since when it is tried.
	Answered, Tracked time.Time
	// AssignedAt is when the pod was given a revision, or nudged, by this operator; the zero time if it was not.
	AssignedAt time.Time
	// Nudges is how often it was nudged since it was given the revision.
	Nudges int
	// Err is why the last try failed; nil if it did not.
	Err error
}

// NewAgents makes it; it begins to read when the controller starts.
func NewAgents() *Agents {
	return &Agents{
		read: func(ctx context.Context, c *agentclient.Client, address string) (agentapi.Report, error) {
			return c.Report(ctx, address)
		},
		answering: newQueue(), others: newQueue(),
		known: map[types.NamespacedName]*agent{}, pods: map[types.NamespacedName]map[types.NamespacedName]bool{}, clients: map[types.NamespacedName]versionedClient{},
		reading: map[share]int{}, waiting: map[share][]types.NamespacedName{},
	}
}

// Start implements source.Source: reading begins, and changed reports go to the controller's queue.
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

func newQueue() workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](readTimeout, maxBackoff))
}

// queueOf is where a pod waits to be read.
func (a *Agents) queueOf(known *agent) workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	if known.Err == nil && !known.Answered.IsZero() {
		return a.answering
	}
	return a.others
}

// Hurry has the pods of a CacheNode read often, or no longer.
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

// Track replaces the pods of a CacheNode, and returns what is known of them, by name.
func (a *Agents) Track(cacheNode types.NamespacedName, c *agentclient.Client, targets []Target) map[string]Observation {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	wanted := map[types.NamespacedName]bool{}
	observations := map[string]Observation{}
	for _, target := range targets {
		wanted[target.Pod] = true
		known := a.known[target.Pod]
		if known == nil || known.UID != target.UID {
			known = &agent{Observation: Observation{Tracked: time.Now()}, news: rate.NewLimiter(rate.Every(newsInterval), newsBurst)}
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

// Forget ends the reading of a CacheNode that is gone.
func (a *Agents) Forget(cacheNode types.NamespacedName) {
	a.Track(cacheNode, nil, nil)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	delete(a.clients, cacheNode)
}

// next reads one agent; false when the queue has ended.
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
	mayRead := known != nil && current.IP != "" && current.client != nil && a.queueOf(&current) == pods // if not, Track adds it again
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
	a.note(pod, current.UID, report, err)
	return true
}

// occupy takes a reader for a pod, or has the pod wait for one. The mutex is held.
func (a *Agents) occupy(of share, pod types.NamespacedName) bool {
	if a.reading[of] >= readersEach {
		a.waiting[of] = append(a.waiting[of], pod)
		return false
	}
	a.reading[of]++
	return true
}

// leave gives a reader back, to the next pod that waits. The last reader wakes all waiting pods, because a pod that was woken
// before may have been deleted.
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

// note keeps what was read, and has the CacheNode looked at if it is news, as often as an agent may have that done.
func (a *Agents) note(pod types.NamespacedName, uid types.UID, report agentapi.Report, err error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	known := a.known[pod]
	if known == nil || known.UID != uid {
		return
	}
	changed := err == nil && (known.Answered.IsZero() || !reflect.DeepEqual(known.Report, report))
	news := changed || known.untold || (err == nil) != (known.Err == nil)
	known.untold = news && !known.news.Allow()
	known.Err = err
	if err != nil {
		a.others.AddRateLimited(pod)
	} else {
		if changed && !known.untold { // otherwise it is read again later, and is news then
			known.Report = report
		}
		known.Answered = time.Now()
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

// isSilent is true for an agent that has not answered for a while.
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

// isSilentIn is that for a pod: one that has just become ready is waited for, however long it took to start.
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
