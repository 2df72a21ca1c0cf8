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

// pace is the time by which a waiting test moves the clock after each check of its condition.
const pace = 100 * time.Millisecond

// worked is a queue that counts its items. left counts the items that wait for a worker or that a worker handles now.
// done counts the handled items, and failed counts the items that are retried after an error.
type worked[T comparable] struct {
	workqueue.TypedRateLimitingInterface[T]
	left, done, failed *atomic.Int64
	// after is the delay of the last item that was added by AddAfter, as a [time.Duration].
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
	w.TypedRateLimitingInterface.Done(item) // pushes the item again if it was added meanwhile
	w.done.Add(1)                           // before left: see isIdle
	w.left.Add(-1)
}

// pushed stores the items of a queue, and counts each item that is pushed.
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

// queues contains the queues of the controllers and of their agents.Tracker.
type queues struct {
	passes, purges    worked[reconcile.Request]
	gateways, classes worked[reconcile.Request]
	answering, others worked[types.NamespacedName]
}

// ofAgents returns a function that creates the queues of a Tracker. These queues use the test's clock.
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

// follow makes controllers use queues with the test's clock. The queues exist only after the controllers have started.
// The returned function waits for this.
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

// controllers contains the controllers that a test starts. gateways and classes are nil without a GatewayExchange.
type controllers struct {
	cacheNodes *CacheNodeReconciler
	purges     *PurgeReconciler
	gateways   *GatewayReconciler
	classes    *GatewayClassReconciler
}

// isIdle returns true while the operator waits for an event, or for the clock. An item of one queue can add items to
// another queue, so it is not enough to look at each queue once. isIdle also checks that no item was handled while it
// looked at the queues.
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

// ends waits until the operator has nothing to do at the current time. The operator may not have seen all changes yet.
func (o *operator) ends() {
	o.t.Helper()
	await.Until(o.t, func() string {
		if o.queues.isIdle() {
			return ""
		}
		return "the operator is at work"
	})
}

// eventually calls f until it returns "". f returns what is still missing. Between the calls, eventually moves the
// operator's clock, but only if the operator has nothing to do. So the operator has enough time even on a busy machine.
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

// settle waits until the operator has nothing to do at the current time. This means that the operator has seen all
// objects and read all agents, and that a pass over the CacheNode writes nothing. Meanwhile, the operator's clock
// stands still.
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

// look makes the controllers run a pass over a CacheNode.
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

// readAgents makes the operator read the agents of all pods now.
func (o *operator) readAgents() {
	pods := &corev1.PodList{}
	must(o.t, o.client.List(context.Background(), pods, client.MatchingLabelsSelector{Selector: naming.Managed()}))
	for i := range pods.Items { // each queue ignores the pods of the other queue
		o.queues.answering.Add(client.ObjectKeyFromObject(&pods.Items[i]))
		o.queues.others.Add(client.ObjectKeyFromObject(&pods.Items[i]))
	}
}

// unseen returns an object that the operator's cache does not show in its current version; "" if there is no such
// object.
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

// versions returns the resourceVersions of the objects in a list, by name.
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
