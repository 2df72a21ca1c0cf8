package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// +kubebuilder:rbac:groups=cachenode.io,resources=cachepurges,verbs=list;watch;delete
// +kubebuilder:rbac:groups=cachenode.io,resources=cachepurges/status,verbs=patch

// PurgeReconciler carries out CachePurges. A pass is over a CacheNode with all of its purges: those that are new get
// places in its journal by one write, and are then sent to the pods' agents.
type PurgeReconciler struct {
	client.Client
	// Live reads from the API server, past the cache.
	Live   client.Reader
	Agents *agents.Tracker
	// Clock tells the time for decisions, and ends the wait for agents; nil means the real clock.
	Clock clock.Clock
	// Concurrency is how many CacheNodes have a pass at a time; 0 means 1.
	Concurrency int

	// newQueue makes the controller's queue; nil means controller-runtime's own. Tests set it.
	newQueue queueFunc
	// errands send to agents beyond the end of a pass.
	errands errands
	// sending limits the size of the updates that are being sent.
	sending *semaphore.Weighted
	unsafe  changedURLs
	// journals has a *journal for each CacheNode, by its name.
	journals sync.Map
	// missing has since when CacheNodes that purges name are known not to exist, by their names.
	missing sync.Map
	// late has the CacheNodes of agents that answered after their pass had ended.
	late chan event.TypedGenericEvent[*v1alpha1.CacheNode]
}

const (
	// journalAge is how long a purge stays in the journal after it has ended, for pods that are down.
	journalAge = 24 * time.Hour
	// behindInterval is the time between two tries to reach an agent that is behind.
	behindInterval = time.Second
	// lateBurst is how many passes agents may cause at once by answering after one has ended; one more is due every
	// behindInterval.
	lateBurst = 20
	// journalInterval is the time after which agents are compared with the journal without a reason.
	journalInterval = 30 * time.Second
	// compactInterval is the time between two looks for purges that are too old.
	compactInterval = time.Hour
	// missingPatience is how long a purge waits for a CacheNode that does not exist. missingTTL is after which time such
	// a purge is deleted if it does not say so itself.
	missingPatience = time.Hour
	missingTTL      = 24 * time.Hour
)

// purgesOf selects CachePurges in the cache by their CacheNode.
const purgesOf = "spec.cacheNode"

// SetupWithManager adds the reconciler to the manager.
func (r *PurgeReconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.Agents.OnUnsafe(r.changed)
	r.errands = make(errands)
	if err := mgr.Add(r.errands); err != nil {
		return err
	}
	r.sending = semaphore.NewWeighted(sendBytes)
	r.late = make(chan event.TypedGenericEvent[*v1alpha1.CacheNode], 1024)
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.CachePurge{}, purgesOf,
		func(object client.Object) []string {
			return []string{object.(*v1alpha1.CachePurge).Spec.CacheNode} //nolint:forcetypeassert // of its type only
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
		WatchesRawSource(source.Channel(r.late, &handler.TypedEnqueueRequestForObject[*v1alpha1.CacheNode]{})).
		Complete(r)
}

// toPurged returns the request for the CacheNode of a CachePurge.
func toPurged(_ context.Context, object client.Object) []reconcile.Request {
	name := object.(*v1alpha1.CachePurge).Spec.CacheNode //nolint:forcetypeassert // of its type only
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}

// purging is the state of one pass.
type purging struct {
	cacheNode *v1alpha1.CacheNode
	now       time.Time
	purges    []v1alpha1.CachePurge
	// unsafe are URLs at which clients have changed something.
	unsafe []string
	pods   []corev1.Pod
	// refused says, by the UID of a purge that gets no place, why. Those in waiting may get one later.
	refused, waiting map[types.UID]string
}

// Reconcile runs one pass over a CacheNode.
func (r *PurgeReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p := &purging{
		now: r.Clock.Now(), unsafe: r.unsafe.take(request.NamespacedName),
		refused: map[types.UID]string{}, waiting: map[types.UID]string{},
	}
	purges := &v1alpha1.CachePurgeList{}
	err := r.List(ctx, purges, client.InNamespace(request.Namespace), client.MatchingFields{purgesOf: request.Name})
	if err != nil {
		return reconcile.Result{}, err
	}
	p.purges = purges.Items
	p.cacheNode = &v1alpha1.CacheNode{}
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
	defer func() { r.unsafe.add(request.NamespacedName, p.unsafe) }() // those that the pass has not come to
	p.pods = slices.DeleteFunc(storage.CachePods(pods.Items), func(pod corev1.Pod) bool { return pod.Status.PodIP == "" })
	known, _ := r.journals.LoadOrStore(request.NamespacedName, newJournal(p.cacheNode.UID))
	j := known.(*journal) //nolint:forcetypeassert // nothing else is there
	if j.uid != p.cacheNode.UID {
		j = newJournal(p.cacheNode.UID)
		r.journals.Store(request.NamespacedName, j)
	}
	return r.pass(ctx, p, j)
}

// pass gives new purges a place, sends them to the agents, ends what has been applied for long enough, and writes the
// statuses.
func (r *PurgeReconciler) pass(ctx context.Context, p *purging, j *journal) (reconcile.Result, error) {
	isThere, wait, err := r.load(ctx, p, j)
	if err != nil {
		return reconcile.Result{}, err
	}
	if wait > 0 {
		for _, cp := range p.purges {
			p.waiting[cp.UID] = "it is not known yet whether there was a journal: some agents have not answered"
		}
		return reconcile.Result{RequeueAfter: wait}, r.reportWaiting(ctx, p)
	}
	if !isThere && len(p.purges) == 0 && len(p.unsafe) == 0 && !j.hasStale() {
		return reconcile.Result{}, nil
	}
	if j.mayEnd(p) { // only if all pods still obey what ends
		r.send(ctx, p, j, true)
		p.now = r.Clock.Now() // the agents have confirmed it until now
		j.note(p, j.progress(p))
	}
	err = r.commit(ctx, p, j)
	if apierrors.IsAlreadyExists(err) { // ConfigMaps of others are not watched
		for _, cp := range p.purges {
			p.waiting[cp.UID] = "a ConfigMap " + naming.Purges(p.cacheNode.Name, 0) + " to " + fmt.Sprint(purge.Slots-1) +
				" exists and is not the operator's: delete it, or give the CacheNode another name"
		}
		return reconcile.Result{RequeueAfter: time.Minute}, r.reportWaiting(ctx, p)
	} else if err != nil {
		return reconcile.Result{}, err
	}
	r.send(ctx, p, j, false)
	p.now = r.Clock.Now() // the grace period begins after the agents have answered
	pods := j.progress(p)
	j.note(p, pods)
	due := max(j.due(p), time.Nanosecond) // the next pass seals what is due
	if err := r.report(ctx, p, j, pods); err != nil {
		return reconcile.Result{}, err
	}
	next, err := r.expire(ctx, p, 0)
	return reconcile.Result{RequeueAfter: min(due, next)}, err
}

// target returns what a CachePurge is about.
func target(spec v1alpha1.CachePurgeSpec) purge.Target {
	hosts := make([]string, len(spec.Hosts))
	for i, h := range spec.Hosts {
		hosts[i] = strings.ToLower(h)
	}
	return purge.Target{
		URLs: spec.URLs, Prefixes: spec.Prefixes, Hosts: hosts, Tags: spec.Tags, Everything: spec.Everything,
	}
}
