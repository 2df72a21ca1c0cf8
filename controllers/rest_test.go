package controllers

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/await"
)

// pace is how far a look of a test that waits moves the clock.
const pace = 100 * time.Millisecond

// worked is a queue that counts its items: those left, which wait for a worker or which a worker has, those done, and
// those that have failed.
type worked[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]
	left, done, failed *atomic.Int64
	// after is the delay of the last item that was added for later, a [time.Duration].
	after *atomic.Int64
}

// AddRateLimited implements [workqueue.TypedRateLimitingInterface]. Controllers call it after an error.
func (w worked[T]) AddRateLimited(item T) {
	w.failed.Add(1)
	w.TypedRateLimitingInterface.AddRateLimited(item)
}

// AddAfter implements [workqueue.TypedDelayingInterface].
func (w worked[T]) AddAfter(item T, delay time.Duration) {
	w.after.Store(int64(delay))
	w.TypedRateLimitingInterface.AddAfter(item, delay)
}

// Done implements [workqueue.TypedInterface].
func (w worked[T]) Done(item T) {
	w.TypedRateLimitingInterface.Done(item) // which pushes an item that was added meanwhile
	w.done.Add(1)                           // first: see isIdle
	w.left.Add(-1)
}

// pushed is what a queue keeps its items in.
type pushed[T comparable] struct {
	workqueue.Queue[T]
	left *atomic.Int64
}

// Push implements [workqueue.Queue].
func (p pushed[T]) Push(item T) {
	p.left.Add(1)
	p.Queue.Push(item)
}

func newWorked[T comparable](c clock.WithTicker, retries workqueue.TypedRateLimiter[T]) worked[T] {
	left := &atomic.Int64{}
	items := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{
		Clock: c, Queue: pushed[T]{workqueue.DefaultQueue[T](), left},
	})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Clock: c, Queue: items})
	config := workqueue.TypedRateLimitingQueueConfig[T]{Clock: c, DelayingQueue: delayed}
	return worked[T]{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(retries, config),
		left:                       left, done: &atomic.Int64{}, failed: &atomic.Int64{}, after: &atomic.Int64{},
	}
}

// queues are those of the controllers and of their agents.Tracker.
type queues struct {
	passes, purges    worked[reconcile.Request]
	gateways, classes worked[reconcile.Request]
	answering, others worked[types.NamespacedName]
}

// ofAgents makes the queues of a Tracker, which follow the clock.
func (q *queues) ofAgents(c clock.WithTicker) func(workqueue.TypedRateLimiter[types.NamespacedName]) agents.Queue {
	return func(retries workqueue.TypedRateLimiter[types.NamespacedName]) agents.Queue {
		w := newWorked(c, retries)
		if q.answering.TypedRateLimitingInterface == nil {
			q.answering = w
		} else {
			q.others = w
		}
		return w
	}
}

// follow makes controllers use queues that follow the clock. The queues are there once the controllers have started:
// the result waits for that.
func (q *queues) follow(c clock.WithTicker, of controllers) (started func()) {
	queue := func(made chan<- worked[reconcile.Request]) queueFunc {
		return func(
			_ string, retries workqueue.TypedRateLimiter[reconcile.Request],
		) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			w := newWorked(c, retries)
			made <- w
			return w
		}
	}
	var made [4]chan worked[reconcile.Request]
	for i := range made {
		made[i] = make(chan worked[reconcile.Request], 1)
	}
	of.cacheNodes.newQueue, of.purges.newQueue = queue(made[0]), queue(made[1])
	if of.gateways == nil { // these queues stay empty
		for _, m := range made[2:] {
			queue(m)("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		}
	} else {
		of.gateways.newQueue, of.classes.newQueue = queue(made[2]), queue(made[3])
	}
	return func() { q.passes, q.purges, q.gateways, q.classes = <-made[0], <-made[1], <-made[2], <-made[3] }
}

// controllers are those that a test starts. gateways and classes are nil without a GatewayExchange.
type controllers struct {
	cacheNodes *CacheNodeReconciler
	purges     *PurgeReconciler
	gateways   *GatewayReconciler
	classes    *GatewayClassReconciler
}

// isIdle returns true while the operator waits for an event, or for the clock. Items of one queue add items to another,
// so it is not enough to look at each queue once: no item may have been done meanwhile.
func (q *queues) isIdle() bool {
	done := q.done()
	left := q.answering.left.Load() + q.others.left.Load()
	for _, w := range q.ofControllers() {
		left += w.left.Load()
	}
	return left == 0 && q.done() == done
}

func (q *queues) done() int64 {
	done := q.answering.done.Load() + q.others.done.Load()
	for _, w := range q.ofControllers() {
		done += w.done.Load()
	}
	return done
}

func (q *queues) ofControllers() []worked[reconcile.Request] {
	return []worked[reconcile.Request]{q.passes, q.purges, q.gateways, q.classes}
}

// ends waits until the operator has nothing to do at the present time, as far as it knows.
func (o *operator) ends() {
	o.t.Helper()
	await.Until(o.t, func() string {
		if o.queues.isIdle() {
			return ""
		}
		return "the operator is at work"
	})
}

// eventually calls f until it returns "". f returns what is still missing. The operator's time passes meanwhile, but
// only while the operator has nothing to do: a busy machine gives it no less time.
func (o *operator) eventually(f func() string) {
	o.t.Helper()
	await.Until(o.t, func() string {
		missing := f()
		if missing != "" && o.queues.isIdle() {
			o.clock.Step(pace)
		}
		return missing
	})
}

// settle waits until the operator has nothing to do at the present time: it has seen all objects, has read all agents,
// and a pass over the CacheNode writes nothing. The operator's time does not pass meanwhile.
func (o *operator) settle(cacheNode *v1alpha1.CacheNode) {
	o.t.Helper()
	before := -1
	await.Until(o.t, func() string {
		if !o.queues.isIdle() {
			return "the operator is at work"
		}
		changes, last := o.requests.changed()
		if changes == before {
			return ""
		}
		if unseen := o.unseen(); unseen != "" {
			return "the operator's cache is behind: " + unseen
		}
		before = changes
		o.readAgents()
		o.look(cacheNode)
		return "the operator changes something in each pass, the last is " + last
	})
	o.get(cacheNode)
}

// look has the controllers run a pass over a CacheNode.
func (o *operator) look(cacheNode *v1alpha1.CacheNode) {
	o.queues.passes.Add(requestFor(cacheNode))
	o.queues.purges.Add(requestFor(cacheNode))
	if o.reconciler.Exchange != nil {
		o.queues.gateways.Add(requestFor(cacheNode))
	}
}

func requestFor(cacheNode *v1alpha1.CacheNode) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cacheNode)}
}

// readAgents reads the agents of all pods, as if their time had come.
func (o *operator) readAgents() {
	pods := &corev1.PodList{}
	must(o.t, o.client.List(context.Background(), pods, client.MatchingLabelsSelector{Selector: naming.Managed()}))
	for i := range pods.Items { // a queue leaves the other's pods alone
		o.queues.answering.Add(client.ObjectKeyFromObject(&pods.Items[i]))
		o.queues.others.Add(client.ObjectKeyFromObject(&pods.Items[i]))
	}
}

// unseen says which object the operator's cache does not show as it is; "" if there is none.
func (o *operator) unseen() string {
	o.t.Helper()
	for _, list := range []client.ObjectList{
		&v1alpha1.CacheNodeList{}, &v1alpha1.CachePurgeList{}, &appsv1.StatefulSetList{}, &corev1.ConfigMapList{},
		&corev1.ServiceList{}, &corev1.SecretList{}, &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{},
		&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}, &corev1.NodeList{},
		&storagev1.StorageClassList{},
	} {
		var of []client.ListOption
		switch list.(type) {
		case *v1alpha1.CacheNodeList, *v1alpha1.CachePurgeList, *corev1.NodeList, *storagev1.StorageClassList:
		default:
			of = append(of, client.MatchingLabelsSelector{Selector: naming.Managed()})
		}
		cached := list.DeepCopyObject().(client.ObjectList)
		must(o.t, o.client.List(context.Background(), list, of...))
		must(o.t, o.cached.List(context.Background(), cached))
		want, got := versions(o.t, list), versions(o.t, cached)
		for name, version := range want {
			if got[name] != version {
				return fmt.Sprintf("%T %s", list, name)
			}
		}
		if len(got) != len(want) {
			return fmt.Sprintf("%T: something was deleted", list)
		}
	}
	return ""
}

// versions returns the versions of a list's objects by name.
func versions(t testing.TB, list client.ObjectList) map[string]string {
	t.Helper()
	versions := map[string]string{}
	must(t, meta.EachListItem(list, func(object runtime.Object) error {
		o := object.(client.Object)
		versions[o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
		return nil
	}))
	return versions
}
