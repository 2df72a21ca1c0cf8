package purgeapi

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/purgeapi/batch"
)

// createTimeout is the time limit for the API server to create a CachePurge. gatherTimeout is the time limit for a
// request to get the name of its CachePurge.
const (
	createTimeout = 10 * time.Second
	gatherTimeout = 20 * time.Second
)

// created is the result of a batch: the name of a CachePurge, or an error.
type created struct {
	name string
	err  error
}

// gatherer creates CachePurges. It can create one CachePurge for many requests. It is safe for concurrent use.
type gatherer struct {
	client  client.Client
	ttl     int32
	metrics *Metrics
	clock   clock.Clock
	// ended is closed when the endpoint ends. After that, batches are sent at once, so that requests get their answers.
	ended <-chan struct{}

	mutex sync.Mutex
	queue batch.Queue[chan<- created]
}

// create adds a request to a batch, and returns the name of the batch's CachePurge.
func (g *gatherer) create(key batch.Key, target purge.Target) (name string, err error) {
	reply := make(chan created, 1) // so that sendOne does not block if create does not wait any more
	g.mutex.Lock()
	isFirst := g.queue.Add(key, batch.Member[chan<- created]{Target: target, Reply: reply}, g.clock.Now())
	g.mutex.Unlock()
	if isFirst {
		go g.send(key)
	}
	select {
	case c := <-reply:
		return c.name, c.err
	case <-g.clock.After(gatherTimeout):
		return "", unavailable("the API server is slow: the purge may come yet, and it does no harm to send it again")
	}
}

// send sends the batches of a key, one after another, until no batch is left.
func (g *gatherer) send(key batch.Key) {
	for waited := time.Duration(0); ; {
		g.mutex.Lock()
		b, wait, isOver := g.queue.Next(key, g.clock.Now().Add(waited))
		g.mutex.Unlock()
		switch {
		case isOver:
			return
		case wait > 0:
			select {
			case <-g.clock.After(wait):
			case <-g.ended:
				waited += wait
			}
		default:
			g.sendOne(b)
		}
	}
}

// sendOne creates the CachePurge of a batch. If the API server rejects it, sendOne tries each half of the batch, and
// divides a rejected half again. So a rejection makes a request fail only if the API server also rejects a CachePurge
// for this request alone.
func (g *gatherer) sendOne(b batch.Batch[chan<- created]) {
	name, err := g.createOne(b.Key, b.Target())
	if len(b.Members) > 1 && isRefusal(err) {
		first, second := b.Halves()
		g.sendOne(first)
		g.sendOne(second)
		return
	}
	if err == nil {
		g.metrics.batches.Observe(float64(len(b.Members)))
	}
	for _, m := range b.Members {
		m.Reply <- created{name, err}
	}
}

func (g *gatherer) createOne(key batch.Key, t purge.Target) (name string, err error) {
	cp := &v1alpha1.CachePurge{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: key.CacheNode + "-", Namespace: key.Namespace,
			Annotations: map[string]string{naming.AnnotationRequestedBy: key.User},
		},
		Spec: v1alpha1.CachePurgeSpec{
			CacheNode: key.CacheNode, Mode: key.Mode, TTLSecondsAfterFinished: &g.ttl,
			URLs: t.URLs, Prefixes: t.Prefixes, Hosts: t.Hosts, Tags: t.Tags, Everything: t.Everything,
		},
	}
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	defer cancel()
	err = g.client.Create(ctx, cp)
	return cp.Name, err
}
