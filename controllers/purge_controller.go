package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// +kubebuilder:rbac:groups=cachenode.io,resources=cachepurges,verbs=list;watch;delete
// +kubebuilder:rbac:groups=cachenode.io,resources=cachepurges/status,verbs=patch

// PurgeReconciler carries out CachePurges. A pass handles a CacheNode with all of its purges. One write gives all new
// purges places in the journal, and then the pass sends them to the pods' agents. The agent of a pod gets purges only
// after a pass of [CacheNodeReconciler] has seen the pod. Until then, the purges wait for the pod.
type PurgeReconciler struct {
	client.Client
	// Live reads from the API server and bypasses the cache.
	Live   client.Reader
	Agents *agents.Tracker
	// Clock returns the time for decisions; nil means the real clock.
	Clock clock.Clock
	// Concurrency is the number of CacheNodes that are handled at the same time; 0 means 1.
	Concurrency int

	// newQueue creates the controller's queue; nil means the default queue of controller-runtime. Tests set it.
	newQueue queueFunc
	// journals stores a *journal for each CacheNode, by the name of the CacheNode.
	journals sync.Map
	// missing contains each CacheNode that does not exist although a purge refers to it. The value is the time at which
	// the operator noticed this; the key is the name of the CacheNode.
	missing sync.Map
	// queue is the controller's queue; nil before the controller starts.
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

// purgesOf is the cache index that finds CachePurges by the name of their CacheNode.
const purgesOf = "spec.cacheNode"

// SetupWithManager adds the reconciler to the manager.
func (r *PurgeReconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.Agents.OnPurges(r.wake)
	if err := mgr.Add(r.Agents.Errands()); err != nil {
		return err
	}
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.CachePurge{}, purgesOf,
		func(object client.Object) []string {
			return []string{object.(*v1alpha1.CachePurge).Spec.CacheNode} //nolint:forcetypeassert // always a CachePurge
		})
	if err != nil {
		return err
	}
	journals := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return naming.IsPurges(object.GetName(), object.GetLabels()[naming.LabelInstance])
	})
	return ctrl.NewControllerManagedBy(mgr).Named("cachepurge").
		WithOptions(controller.Options{MaxConcurrentReconciles: max(r.Concurrency, 1), NewQueue: r.newQueue}).
		Watches(&v1alpha1.CachePurge{}, handler.EnqueueRequestsFromMapFunc(toPurged),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(toCacheNode), builder.WithPredicates(journals)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)).
		Watches(&v1alpha1.CacheNode{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(
			func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
				r.queue.Store(&queue)
				return nil
			})).
		Complete(r)
}

// toPurged returns the request for the CacheNode that a CachePurge names.
func toPurged(_ context.Context, object client.Object) []reconcile.Request {
	name := object.(*v1alpha1.CachePurge).Spec.CacheNode //nolint:forcetypeassert // always a CachePurge
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}

// wake causes a pass over a CacheNode. Before the start of the controller, wake does nothing, because the start causes
// a pass over every CacheNode.
func (r *PurgeReconciler) wake(cacheNode types.NamespacedName) {
	if queue := r.queue.Load(); queue != nil {
		(*queue).Add(reconcile.Request{NamespacedName: cacheNode})
	}
}

// purging is one pass over the purges of a CacheNode.
type purging struct {
	cacheNode *v1alpha1.CacheNode
	pods      []corev1.Pod
	state     purge.State
}

// Reconcile runs one pass over the purges of a CacheNode.
func (r *PurgeReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p := &purging{cacheNode: &v1alpha1.CacheNode{}}
	p.state.Now, p.state.Held = r.Clock.Now(), map[types.UID]purge.Held{}
	purges := &v1alpha1.CachePurgeList{}
	err := r.List(ctx, purges, client.InNamespace(request.Namespace), client.MatchingFields{purgesOf: request.Name})
	if err != nil {
		return reconcile.Result{}, err
	}
	p.state.Purges = purges.Items
	err = r.Get(ctx, request.NamespacedName, p.cacheNode)
	if apierrors.IsNotFound(err) || (err == nil && !p.cacheNode.DeletionTimestamp.IsZero()) {
		r.journals.Delete(request.NamespacedName)
		return r.orphans(ctx, p, request.NamespacedName)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	r.missing.Delete(request.NamespacedName)
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, byInstance(p.cacheNode)); err != nil {
		return reconcile.Result{}, err
	}
	p.pods = slices.DeleteFunc(storage.CachePods(pods.Items), func(pod corev1.Pod) bool { return pod.Status.PodIP == "" })
	return r.pass(ctx, p, r.journal(p.cacheNode))
}

// journal returns what earlier passes know about the journal of a CacheNode.
func (r *PurgeReconciler) journal(cacheNode *v1alpha1.CacheNode) *journal {
	name := client.ObjectKeyFromObject(cacheNode)
	known, _ := r.journals.LoadOrStore(name, newJournal(cacheNode.UID))
	j := known.(*journal) //nolint:forcetypeassert // the map stores only journals
	if j.uid != cacheNode.UID {
		j = newJournal(cacheNode.UID)
		r.journals.Store(name, j)
	}
	return j
}

// pass gives new purges a place in the journal, and sends them to the agents. It also ends each purge in the journal
// (a [purge.Rule]) that all pods have obeyed for long enough. Then it writes the statuses.
func (r *PurgeReconciler) pass(ctx context.Context, p *purging, j *journal) (reconcile.Result, error) {
	j.forgetLost(p.state.Purges)
	p.state.Lost = j.lost
	isThere, wait, err := r.load(ctx, p, j)
	if err != nil {
		return reconcile.Result{}, err
	}
	if wait > 0 {
		return r.reportWaiting(ctx, p, wait, "it is not known yet whether there was a journal: some agents have not answered")
	}
	actions := r.decide(p, j)
	if !isThere && len(p.state.Purges) == 0 && !p.state.HasStale() {
		return reconcile.Result{}, nil
	}
	name := client.ObjectKeyFromObject(p.cacheNode)
	if actions.Confirm { // a rule ends only if all pods still obey it
		r.Agents.Purge(ctx, name, j.log.Journal, true)
		actions = r.decide(p, j)
	}
	err = r.commit(ctx, p, j, actions)
	if apierrors.IsAlreadyExists(err) { // ConfigMaps of others are not watched
		return r.reportWaiting(ctx, p, time.Minute, "a ConfigMap "+naming.Purges(name.Name, 0)+" to "+
			fmt.Sprint(purge.Slots-1)+" exists and is not the operator's: delete it, or give the CacheNode another name")
	} else if err != nil {
		return reconcile.Result{}, err
	}
	r.Agents.Purge(ctx, name, j.log.Journal, false)
	actions = r.decide(p, j) // the grace period begins after the agents have answered
	return r.report(ctx, p, p.state.Statuses(), 0, max(actions.Due, time.Nanosecond))
}

// decide computes the actions from the journal and from the latest answers of the agents.
func (r *PurgeReconciler) decide(p *purging, j *journal) purge.Actions {
	s := &p.state
	s.Now, s.Grace = r.Clock.Now(), effective.PurgeGrace(p.cacheNode.Spec)
	s.Log, s.Obeyed, s.Compacted = j.log, j.obeyed, j.compacted
	s.Pods = nil
	known := r.Agents.Purged(client.ObjectKeyFromObject(p.cacheNode))
	for i := range p.pods {
		pod := &p.pods[i]
		one, isKnown := known[pod.UID]
		if !isKnown {
			one = purge.Pod{Name: pod.Name, Problem: agents.NotAnswered, IsUnknown: true}
		}
		one.Serves = isInitialized(pod)
		s.Pods = append(s.Pods, one)
	}
	actions := purge.Decide(*s)
	j.obeyed = actions.Obeyed
	return actions
}

// reportWaiting writes the same message into the status of every unfinished purge while the journal is not known. The
// message says what the purge waits for.
func (r *PurgeReconciler) reportWaiting(
	ctx context.Context, p *purging, due time.Duration, message string,
) (reconcile.Result, error) {
	return r.report(ctx, p, p.waiting(message), 0, due)
}

// waiting returns the statuses of all unfinished purges while the journal is not known.
func (p *purging) waiting(message string) []purge.Change {
	unknown := p.state
	unknown.Log, unknown.Held = nil, map[types.UID]purge.Held{}
	for i := range unknown.Purges {
		unknown.Held[unknown.Purges[i].UID] = purge.Held{Message: message}
	}
	return unknown.Statuses()
}

// isInitialized returns true for a pod whose nginx has started or is about to start.
func isInitialized(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if (c.Type == corev1.PodInitialized || c.Type == corev1.PodReady) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
