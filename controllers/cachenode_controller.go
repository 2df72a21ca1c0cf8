package controllers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage/executor"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// +kubebuilder:rbac:groups=cachenode.io,resources=cachenodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cachenode.io,resources=cachenodes/status,verbs=patch
// +kubebuilder:rbac:groups=cachenode.io,resources=cachenodes/finalizers,verbs=update
// +kubebuilder:rbac:groups=cachenode.io,resources=cachenodes/scale,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps;services;secrets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// CacheNodeReconciler creates, updates and deletes the objects of CacheNodes, and writes their status.
type CacheNodeReconciler struct {
	client.Client
	// Live reads from the API server and bypasses the cache. The cache of referenced objects stores only their metadata,
	// so their content comes from Live.
	Live   client.Reader
	Events events.EventRecorder
	Agents *agents.Tracker
	// Exchange contains the routes of Gateways; nil if the cluster has no Gateway API.
	Exchange *GatewayExchange
	// Cluster contains the settings that are the same for every CacheNode.
	Cluster Cluster
	// Endpoints is true if EndpointSlices can be read. Without them, requests to a headless Service go to its target port.
	Endpoints bool
	// Clock returns the time for decisions; nil means the real clock.
	Clock clock.PassiveClock
	// Concurrency is the number of CacheNodes that are reconciled at the same time; 0 means 1. Only one worker at a time
	// reconciles a given CacheNode.
	Concurrency int
	// newQueue creates the controller's queue; nil means the default queue of controller-runtime. Tests set it.
	newQueue queueFunc
	// began returns the time at which this operator began to reconcile. If several operators run, this is the time at
	// which this operator became the leader.
	began func() time.Time
	// since stores what the last pass over each CacheNode left for the next pass (a [lasting]), by the name of the
	// CacheNode.
	since sync.Map
	// references reads the objects to which CacheNodes refer.
	references references
	// rendered remembers the revisions that were rendered without an error.
	rendered *lru.Cache
	// late is the back-off while the informer cache lags behind our own writes.
	late workqueue.TypedRateLimiter[reconcile.Request]
}

// queueFunc creates the queue of a controller.
type queueFunc func(
	name string, retries workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request]

// Cluster contains what the operator's flags define about the cluster and about the operator.
type Cluster struct {
	// Version is the version of this operator.
	Version string
	// Domain is the DNS domain of the cluster's Services, usually cluster.local.
	Domain string
	// Resolvers are the DNS servers that the agents ask. If the list is empty, each agent asks the servers in its pod's
	// resolv.conf.
	Resolvers []string
	// Images are the container images of new pods. The default image of the agent is the image of the operator.
	Images manifest.Images
	// Namespaces are the namespaces whose CacheNodes are reconciled; an empty list means all namespaces.
	Namespaces []string
	// MaxVolumes is the maximum number of volumes of all CacheNodes in a namespace together; 0 means no limit.
	MaxVolumes int
	// Policy restricts what the specs of CacheNodes may contain.
	Policy validation.Policy
}

const (
	// lateDelay is the first back-off while the informer cache lags behind our own writes. The back-off doubles up to
	// latestDelay, because the cache may have lost its watch.
	lateDelay   = 200 * time.Millisecond
	latestDelay = 30 * time.Second
	// lateWarning is the back-off from which on a pass logs that the cache lags behind.
	lateWarning = 5 * time.Second
)

// failureAfter is the time for which every pass must fail before the status shows the error. lateFailureAfter is the
// longer time for an error that only means that the informer cache lags behind.
const (
	failureAfter     = 15 * time.Second
	lateFailureAfter = 2 * time.Minute
)

// Reconcile changes the objects of one CacheNode toward the state that its spec asks for. If the spec is wrong or a
// referenced object is missing, Reconcile sets a condition and returns no error. The next change of the spec or of the
// referenced object starts a new pass.
func (r *CacheNodeReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if len(r.Cluster.Namespaces) > 0 && !slices.Contains(r.Cluster.Namespaces, request.Namespace) {
		return reconcile.Result{}, nil // caused by an event of another operator's volume
	}
	cacheNode := &v1alpha1.CacheNode{}
	if err := r.Get(ctx, request.NamespacedName, cacheNode); err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
		r.since.Delete(request.NamespacedName)
		r.Agents.Forget(request.NamespacedName)
		r.late.Forget(request)
		return reconcile.Result{}, r.abandon(ctx, request.NamespacedName)
	}
	if !cacheNode.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // the garbage collector deletes the objects that it owns
	}
	r.began() // notes the time of the first pass
	s := scope{cacheNode: cacheNode, now: r.Clock.Now(), last: lastOf(&r.since, cacheNode)}
	s.last.catchUp(cacheNode)
	next, after, err := r.run(ctx, s)
	r.since.Store(request.NamespacedName, next)
	if other := withoutStale(err); err != nil && other == nil {
		wait := r.late.When(request)
		if wait >= lateWarning {
			log.FromContext(ctx).Info("the cache does not show what is on the API server: has it lost its watch?",
				"because", err.Error(), "again", wait)
		}
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	r.late.Forget(request)
	return reconcile.Result{RequeueAfter: after}, withoutStale(err)
}

// run executes the phases of a pass. The phases that keep pods running are executed even if the spec is not accepted.
// The phases that carry out the spec stop at the first error, so no part of a spec that is not accepted is applied. The
// status is written at the end, even after an error.
func (r *CacheNodeReconciler) run(ctx context.Context, s scope) (lasting, time.Duration, error) {
	p := &finished{pass: pass{scope: s}}
	var err error
	if p.observed, err = r.observe(ctx, s, &p.outcome); err != nil {
		next, failed := r.reportFailure(ctx, s, err)
		return next, 0, errors.Join(err, failed)
	}
	r.tellListening(s, p.observed)
	kept := r.keep(ctx, s, p.observed, &p.outcome)
	var refused, uncertified, failed error
	p.wanted, refused = r.want(ctx, s, p.observed, &p.outcome)
	secret, uncertified := r.certify(ctx, s, p.observed, p.wanted, &p.outcome)
	if err = errors.Join(refused, uncertified, p.storage.err); err == nil {
		p.rolled, failed = r.roll(ctx, s, p.observed, p.wanted, secret, &p.outcome)
		r.tellRefused(s, p.observed, p.wanted, p.rolled)
	}
	err = errors.Join(kept, err, failed)
	problem := problemIn(err)
	if problem != nil {
		log.FromContext(ctx).Info("not accepted", "reason", problem.Reason, "message", problem.Message)
		p.lookAgain(problem.RetryAfter)
		err = errors.Join(withoutProblem(err), r.stand(ctx, s, p.observed))
	}
	next, unreported := r.report(ctx, p, p.next(failed), problem, err)
	return next, p.after, errors.Join(err, unreported)
}

// problemIn returns the problem in an error; nil if there is none. If an object with a wanted name belongs to
// somebody else, that counts as a problem too.
func problemIn(err error) *status.Problem {
	if taken, ok := errors.AsType[*apply.TakenError](err); ok && !errors.Is(err, apply.ErrStale) {
		return &status.Problem{
			Reason:     v1alpha1.ReasonNameTaken,
			Message:    taken.Error() + ": it is left alone; delete it, or give the CacheNode another name",
			RetryAfter: time.Minute, // objects of others are not watched
		}
	}
	problem, _ := errors.AsType[*status.Problem](err)
	return problem
}

func withoutProblem(err error) error {
	return without(err, func(err error) bool { return problemIn(err) != nil })
}

// withoutStale returns the errors of a pass except those caused by an informer cache that lags behind.
func withoutStale(err error) error {
	return without(err, func(err error) bool { return errors.Is(err, apply.ErrStale) })
}

// without returns the errors in a joined error, except the errors for which the function leave returns true.
func without(err error, leave func(error) bool) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, err := range joined.Unwrap() {
			rest = append(rest, without(err, leave))
		}
		return errors.Join(rest...)
	}
	if err == nil || leave(err) {
		return nil
	}
	return err
}

// abandon deletes the volumes of a CacheNode that no longer exists. Volumes have no owner and no finalizer, so an
// operator that did not run during the deletion of the CacheNode finds them later.
func (r *CacheNodeReconciler) abandon(ctx context.Context, name types.NamespacedName) error {
	volumes := &corev1.PersistentVolumeList{}
	err := r.List(ctx, volumes, client.MatchingFields{instanceIndex: name.String()})
	if err != nil || len(volumes.Items) == 0 {
		return err
	}
	// The API server is asked, because the informer cache may not show a CacheNode that was created just now.
	if err := r.Live.Get(ctx, name, &v1alpha1.CacheNode{}); !apierrors.IsNotFound(err) {
		return err
	}
	gone := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	e := executor.Executor{Client: r.Client, Live: r.Live, CacheNode: gone}
	return e.Abandon(ctx, volumes.Items)
}
