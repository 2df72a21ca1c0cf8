package controllers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/rollout"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/storage"
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

// CacheNodeReconciler makes the objects of a CacheNode and reports on them.
type CacheNodeReconciler struct {
	client.Client
	// Live reads from the API server, past the cache: what a CacheNode refers to is watched as metadata only.
	Live   client.Reader
	Events events.EventRecorder
	Agents *Agents
	// Cluster has what is the same for every CacheNode.
	Cluster Cluster
	// Clock is the time that decisions are made by; the real one where it is nil.
	Clock clock.PassiveClock
	// Concurrency is how many CacheNodes are seen to at a time, 1 if it is 0. Each one is seen to by one worker at a time.
	Concurrency int
	// since remembers when something began that must last before anything is done about it.
	since sync.Map
	// volumes is held while volumes are made: their names are those of paths on nodes, not of CacheNodes.
	volumes sync.Mutex
	// rendered has the revisions that could be rendered.
	rendered *lru.Cache
	// late says how long to wait for a cache that has yet to see what the operator itself has made.
	late workqueue.TypedRateLimiter[reconcile.Request]
}

// Cluster is what the operator was told of the cluster and of itself.
type Cluster struct {
	// Domain is the domain of the cluster's Services, usually cluster.local.
	Domain string
	// Resolvers are the DNS servers that nginx is to ask; empty for those of each pod's own resolv.conf.
	Resolvers []string
	// AgentImage is the image that the pods get the agent from: the operator's own.
	AgentImage      string
	AgentPullPolicy corev1.PullPolicy
	// Namespaces are those whose CacheNodes are seen to; empty for all.
	Namespaces []string
	// Policy is what CacheNodes may ask for.
	Policy validation.Policy
}

// renderings is how many revisions are remembered to be right.
const renderings = 8192

// A cache is given so long to see what the operator itself has made, twice that the next time, and so on up to the longest: it may
// have lost its watch.
const (
	lateDelay   = 200 * time.Millisecond
	latestDelay = 30 * time.Second
	// lateWarning is from when on it is worth a line in the log.
	lateWarning = 5 * time.Second
)

// Reconcile brings one CacheNode's objects to what its spec asks for. A wrong spec or a missing reference is no error
// here: it is a condition, and the pass after the next change sees to it.
func (r *CacheNodeReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if len(r.Cluster.Namespaces) > 0 && !slices.Contains(r.Cluster.Namespaces, request.Namespace) {
		return reconcile.Result{}, nil // a volume of another operator's
	}
	cacheNode := &v1alpha1.CacheNode{}
	if err := r.Get(ctx, request.NamespacedName, cacheNode); err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, err
		}
		r.Agents.Forget(request.NamespacedName)
		r.late.Forget(request)
		return reconcile.Result{}, r.abandonVolumes(ctx, request.NamespacedName)
	}
	if !cacheNode.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // the garbage collector removes what it owns
	}
	s := &scope{node: cacheNode, now: r.Clock.Now(), once: newOnce(r.Live, cacheNode)}
	err := r.run(ctx, s)
	if taken, ok := errors.AsType[*apply.TakenError](err); ok {
		err = &problem{
			reason:     v1alpha1.ReasonNameTaken,
			message:    taken.Error() + ": it is left alone; delete it, or give the CacheNode another name",
			retryAfter: time.Minute, // objects of others are not watched
		}
	}
	if p, ok := errors.AsType[*problem](err); ok {
		s.problem = p
		log.FromContext(ctx).Info("not accepted", "reason", p.reason, "message", p.message)
		err = r.keep(ctx, s)
	}
	if errors.Is(err, errAnnounced) {
		s.after, err = announceDelay, nil
	}
	if errors.Is(err, apply.ErrStale) {
		wait := r.late.When(request)
		if wait >= lateWarning {
			log.FromContext(ctx).Info("the cache does not show what is on the API server: has it lost its watch?", "because", err.Error(), "again", wait)
		}
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	r.late.Forget(request)
	if err != nil && !apierrors.IsForbidden(err) {
		return reconcile.Result{}, err // it passes, or the next try says more: no condition flaps for it
	}
	s.failure = err
	s.lookAtPods()
	if s.problem != nil {
		s.lookAgain(s.problem.retryAfter)
	}
	return reconcile.Result{RequeueAfter: s.after}, errors.Join(err, r.report(ctx, s))
}

// scope is what one pass knows. Each field says which phase sets it.
type scope struct {
	node *v1alpha1.CacheNode
	now  time.Time
	// once reads from the API server what this pass has not written yet.
	once *once
	// after is when to look again though nothing happens; 0 for never. Any phase may shorten it.
	after time.Duration
	// pods, observations and secret: observe. secret is nil while there is none.
	pods         []corev1.Pod
	observations map[string]Observation
	secret       *corev1.Secret
	// used is what each disk holds over all pods, also one that is no longer in the spec: observe.
	used map[string]int64
	// unknown: a ready pod's agent has yet to be asked, as this operator is new. Nothing is decided or told without it.
	unknown bool
	// caBundle: resolve.
	caBundle string
	// certificates: renew, or certify where there were none.
	certificates map[string][]byte
	// choices, wanted and plan: render. choices is what the spec left to the operator.
	choices []string
	wanted  agentapi.Revision
	plan    *shard.Plan
	// offer, template and decision: decide.
	offer    manifest.ConfigMap
	template manifest.Template
	decision *rollout.Decision
	// statefulSet: observe, then apply; nil while there is none.
	statefulSet *appsv1.StatefulSet
	// claims, hosts and volumes: observe. volumes are those that the claims have, by name, and those of this CacheNode.
	claims  []corev1.PersistentVolumeClaim
	hosts   []corev1.Node
	volumes map[string]*corev1.PersistentVolume
	// verbs: observe.
	verbs storage.Verbs
	// loss says which lost nodes are waited for, and why: recover.
	loss string
	// missing are the disks that placeholders stand in for: recover.
	missing []storage.Missing
	// movement is what the edit of the disks moves; nil if nothing: hold. held is true while it must be acknowledged.
	movement *v1alpha1.KeyMovement
	held     bool
	// remaking: the StatefulSet is gone or going, and is made anew: apply.
	remaking bool
	// warnings are about what is valid but is not, or not wholly, done: applyVolumes.
	warnings []string
	// evicting says which pod waits to be evicted, and why: recover or replace.
	evicting string
	// heldUp says what keeps pods from starting, by name. Reconcile sets it.
	heldUp map[string]string
	// problem: what keeps the spec from being accepted; failure: what the operator is not allowed to do. Reconcile sets both.
	problem *problem
	failure error
}

func (s *scope) lookAgain(after time.Duration) {
	if after > 0 && (s.after == 0 || after < s.after) {
		s.after = after
	}
}

// run goes through the phases and stops at the first that fails: nothing is applied of a spec that is not accepted.
func (r *CacheNodeReconciler) run(ctx context.Context, s *scope) error {
	if err := r.observe(ctx, s); err != nil {
		return err
	}
	// What keeps pods running that are there: neither waits for the other.
	if err := errors.Join(r.renew(ctx, s), r.recover(ctx, s)); err != nil {
		return err
	}
	for _, phase := range []func(context.Context, *scope) error{
		r.validate, r.resolve, r.resolveListener, r.certify, r.render, r.hold, r.followHosts,
		r.applyVolumes, r.decide, r.apply, r.assign, r.tidyClaims, r.replace,
	} {
		if err := phase(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// SetupWithManager starts the reconciler. references is a cache of its own, without the label selector of the manager's,
// for the Secrets and ConfigMaps that CacheNodes refer to.
func (r *CacheNodeReconciler) SetupWithManager(mgr ctrl.Manager, references cache.Cache) error {
	if err := errors.Join(indexReferences(mgr), indexInstances(mgr)); err != nil {
		return err
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	r.rendered = lru.New(renderings)
	r.late = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](lateDelay, latestDelay)
	b := ctrl.NewControllerManagedBy(mgr).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Concurrency}).
		For(&v1alpha1.CacheNode{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Service{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)). // it may have no owner
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(toCacheNode)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.allCacheNodes), builder.WithPredicates(hostChanged())).
		WatchesRawSource(r.Agents)
	for _, source := range r.referenceSources(references) {
		b = b.WatchesRawSource(source)
	}
	return b.Complete(r)
}

func (r *CacheNodeReconciler) allCacheNodes(ctx context.Context, _ client.Object) []reconcile.Request {
	cacheNodes := &v1alpha1.CacheNodeList{}
	if err := r.List(ctx, cacheNodes); err != nil {
		return nil
	}
	requests := make([]reconcile.Request, len(cacheNodes.Items))
	for i := range cacheNodes.Items {
		requests[i] = reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&cacheNodes.Items[i])}
	}
	return requests
}

// hostChanged lets pass what can make a difference to a CacheNode, and not the heartbeats of each node.
func hostChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return !equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			!equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
			!equality.Semantic.DeepEqual(before.Status, after.Status) ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
	}}
}

// CacheOptions restricts the manager's cache to what the operator makes and strips what nobody reads.
func CacheOptions() cache.Options {
	mine := cache.ByObject{Label: naming.Managed()}
	pods := cache.ByObject{Label: naming.Managed(), Transform: stripPod}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.StatefulSet{}:           mine,
			&corev1.ConfigMap{}:             mine,
			&corev1.Service{}:               mine,
			&corev1.Secret{}:                mine,
			&corev1.Pod{}:                   pods,
			&policyv1.PodDisruptionBudget{}: mine,
			&corev1.PersistentVolumeClaim{}: mine,
			&corev1.PersistentVolume{}:      mine,
			&storagev1.StorageClass{}:       {}, // there are few, and others' say whether claims may grow
			&corev1.Node{}:                  {Transform: stripHost},
		},
	}
}

// stripPod keeps of a pod what the operator reads: thousands of them are in its memory.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	var volumes []corev1.Volume
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			volumes = append(volumes, v)
		}
	}
	pod.ManagedFields = nil
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Volumes: volumes}
	pod.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, Conditions: pod.Status.Conditions,
		InitContainerStatuses: lagging(pod.Status.InitContainerStatuses), ContainerStatuses: lagging(pod.Status.ContainerStatuses),
	}
	return pod, nil
}

// stripHost keeps of a node what the operator reads, and nothing that changes with each heartbeat.
func stripHost(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	node.ManagedFields, node.Annotations = nil, nil
	node.Spec = corev1.NodeSpec{Taints: node.Spec.Taints}
	var conditions []corev1.NodeCondition
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			conditions = append(conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
		}
	}
	node.Status = corev1.NodeStatus{Conditions: conditions}
	return node, nil
}
