package controllers

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/validation"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/argocd"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m))
}

// oneDisk is a CacheNode with only the required fields and one disk.
const oneDisk = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 1Gi}]
  origin: {servers: [{host: origin.example.com}]}
`

// requests records what the operator sends to the API server, except for leases. It records an event at the time at
// which the operator reports it. The event itself is sent later, perhaps together with other events.
type requests struct {
	mutex sync.Mutex
	sent  []string
	// changes is the number of requests that may have changed something. last is the last of these requests.
	changes int
	last    string
}

func (r *requests) note(request string, changes bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.sent = append(r.sent, request)
	if changes {
		r.changes++
		r.last = request
	}
}

// changed returns how many requests may have changed something, and the last of them.
func (r *requests) changed() (n int, last string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.changes, r.last
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if path := request.URL.Path; !strings.Contains(path, "/leases") && !strings.Contains(path, "/events") {
			r.note(request.Method+" "+path, request.Method != http.MethodGet && request.URL.Query().Get("dryRun") == "")
		}
		return next.RoundTrip(request)
	})
}

// told is an event recorder that also adds each event to requests.
type told struct {
	events.EventRecorder
	*requests
}

// Eventf implements [events.EventRecorder].
func (t told) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	t.note("EVENT "+reason, true)
	t.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

// all returns what was sent since the last call, in order.
func (r *requests) all() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	sent := r.sent
	r.sent = nil
	return sent
}

// take returns the requests so far, as the number of reads and the list of writes, and forgets them. Every request
// other than a GET is a write.
func (r *requests) take() (reads int, writes []string) {
	for _, request := range r.all() {
		if isRead(request) {
			reads++
		} else {
			writes = append(writes, request)
		}
	}
	return reads, writes
}

func isRead(request string) bool { return strings.HasPrefix(request, "GET ") }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// operator is a running operator, together with a client that only the test uses.
type operator struct {
	t          testing.TB
	config     *rest.Config
	reconciler *CacheNodeReconciler
	requests   *requests
	client     client.Client
	// cached reads from the operator's cache.
	cached client.Reader
	// clock is the operator's clock. It stands still, except in eventually or when a test moves it.
	clock  *clocktesting.FakeClock
	queues queues
	stop   func()
}

// startOperator runs the operator as cmd/manager does, until the test ends or stop is called.
func startOperator(t testing.TB, restConfig *rest.Config, options ...func(*CacheNodeReconciler)) *operator {
	t.Helper()
	now := time.Now().Truncate(time.Second) //nolint:forbidigo // it begins with the API server's, which is the machine's
	return startOperatorAt(t, clocktesting.NewFakeClock(now), restConfig, options...)
}

// again starts another operator. The test must have stopped this operator before.
func (o *operator) again(t testing.TB, options ...func(*CacheNodeReconciler)) *operator {
	t.Helper()
	return startOperatorAt(t, o.clock, o.config, options...)
}

func startOperatorAt(
	t testing.TB, clock *clocktesting.FakeClock, restConfig *rest.Config, options ...func(*CacheNodeReconciler),
) *operator {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	counted := rest.CopyConfig(restConfig)
	o := &operator{
		t: t, config: restConfig, requests: &requests{}, client: apiserver.Client(t, restConfig), clock: clock,
	}
	counted.Wrap(o.requests.wrap)
	mgr, err := ctrl.NewManager(counted, ctrl.Options{
		Scheme:     apiserver.Scheme(t),
		Cache:      CacheOptions(),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	must(t, err)
	references, err := cache.New(counted, cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultTransform: StripReference,
	})
	must(t, err)
	must(t, mgr.Add(references))
	o.cached = mgr.GetCache()
	policy := validation.DefaultPolicy()
	policy.ServiceAnnotations = []string{"*"}
	o.reconciler = &CacheNodeReconciler{
		Client: mgr.GetClient(),
		Live:   mgr.GetAPIReader(),
		Events: told{mgr.GetEventRecorder("cachenode-operator"), o.requests},
		Agents: agents.New(clock, o.queues.ofAgents(clock)),
		Clock:  clock, Endpoints: true,
		Cluster: Cluster{
			Domain: "cluster.local", Policy: policy,
			Images: manifest.Images{Agent: "localhost/cachenode-operator:test", Nginx: v1alpha1.DefaultImage},
		},
		Concurrency: 8,
	}
	o.reconciler.Agents.Calls.Tell = func(context.Context, *agentclient.Client, string, agentapi.Addresses) error {
		return nil
	}
	for _, option := range options {
		option(o.reconciler)
	}
	// Most CacheNodes of these tests name this Service.
	origin := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "origin", Namespace: "default"}}
	origin.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	must(t, client.IgnoreAlreadyExists(o.client.Create(context.Background(), origin)))
	purges := &PurgeReconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Agents: o.reconciler.Agents, Concurrency: 8, Clock: clock,
	}
	all := controllers{cacheNodes: o.reconciler, purges: purges}
	if exchange := o.reconciler.Exchange; exchange != nil {
		all.gateways = &GatewayReconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Exchange: exchange, Grants: true, Policies: true,
			ClusterDomain: "cluster.local", Watched: []string{"default", "team"}, Backends: references,
		}
		all.gateways.Certificates, err = cache.New(counted,
			CertificateOptions(mgr, map[string]cache.Config{"default": {}, "team": {}}))
		must(t, err)
		must(t, mgr.Add(all.gateways.Certificates))
		all.classes = &GatewayClassReconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Watched: all.gateways.Watched,
		}
	}
	started := o.queues.follow(clock, all)
	must(t, o.reconciler.SetupWithManager(mgr, references))
	must(t, purges.SetupWithManager(mgr))
	if all.gateways != nil {
		must(t, all.gateways.SetupWithManager(mgr))
		must(t, all.classes.SetupWithManager(mgr))
	}
	done := make(chan error)
	go func() { done <- mgr.Start(ctx) }()
	var once sync.Once
	o.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(o.stop)
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache did not start")
	}
	started()
	return o
}

// create creates a CacheNode from YAML.
func (o *operator) create(text string) *v1alpha1.CacheNode {
	o.t.Helper()
	cacheNode, errs, err := schema.Decode([]byte(text))
	if err != nil || len(errs) > 0 {
		o.t.Fatal(err, errs)
	}
	must(o.t, o.client.Create(context.Background(), cacheNode))
	return cacheNode
}

// edit changes a CacheNode as a user would.
func (o *operator) edit(cacheNode *v1alpha1.CacheNode, change func(*v1alpha1.CacheNodeSpec)) {
	o.t.Helper()
	o.get(cacheNode)
	before := cacheNode.DeepCopy()
	change(&cacheNode.Spec)
	must(o.t, o.client.Patch(context.Background(), cacheNode, client.MergeFrom(before)))
}

func (o *operator) get(object client.Object) {
	o.t.Helper()
	must(o.t, o.client.Get(context.Background(), client.ObjectKeyFromObject(object), object))
}

// setStatus changes an object's status as a controller of Kubernetes would, whatever the operator writes meanwhile.
func (o *operator) setStatus(object client.Object, change func()) {
	o.t.Helper()
	before := object.DeepCopyObject().(client.Object)
	change()
	must(o.t, o.client.Status().Patch(context.Background(), object, client.MergeFrom(before)))
}

// pass causes one pass over a CacheNode, in addition to the passes that events cause, and waits until this pass has
// ended.
func (o *operator) pass(cacheNode *v1alpha1.CacheNode) {
	o.t.Helper()
	o.ends()
	before := o.queues.passes.failed.Load()
	o.look(cacheNode)
	o.ends()
	if failed := o.queues.passes.failed.Load() - before; failed > 0 {
		o.t.Errorf("%d passes have failed", failed)
	}
}

// writesNothing checks that passes over a CacheNode at rest write nothing.
func (o *operator) writesNothing(cacheNode *v1alpha1.CacheNode, passes int) {
	o.t.Helper()
	o.writesNothingWhile(func() { o.settle(cacheNode) }, func() {
		for range passes { // the operator itself starts no pass here
			_, err := o.reconciler.Reconcile(context.Background(), requestFor(cacheNode))
			must(o.t, err)
		}
	})
}

// writesNothingWhile first calls the function before, which must leave the operator with nothing to do. Then it calls
// the function during, and checks that the operator writes nothing because of that.
func (o *operator) writesNothingWhile(before, during func()) {
	o.t.Helper()
	before()
	o.requests.take()
	during()
	o.ends()
	if _, writes := o.requests.take(); len(writes) > 0 {
		o.t.Errorf("%d writes: %v", len(writes), writes)
	}
}

// rollOut acts as the StatefulSet controller, because no such controller runs here. It sets the status of the
// StatefulSet: every pod has the wanted revision and is ready.
func (o *operator) rollOut(cacheNode *v1alpha1.CacheNode) {
	o.t.Helper()
	set := &appsv1.StatefulSet{}
	set.Name, set.Namespace = cacheNode.Name, cacheNode.Namespace
	o.get(set)
	want := *set.Spec.Replicas
	o.setStatus(set, func() {
		set.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: set.Generation,
			Replicas:           want, ReadyReplicas: want, AvailableReplicas: want, CurrentReplicas: want, UpdatedReplicas: want,
			CurrentRevision: "r", UpdateRevision: "r",
		}
	})
}

// hasEvents waits for an event of each reason.
func (o *operator) hasEvents(reasons ...string) {
	o.t.Helper()
	o.eventually(func() string {
		list := &eventsv1.EventList{}
		must(o.t, o.client.List(context.Background(), list, client.InNamespace("default")))
		missing := slices.Clone(reasons)
		for _, e := range list.Items {
			missing = slices.DeleteFunc(missing, func(r string) bool { return r == e.Reason })
		}
		if len(missing) > 0 {
			return "no event for " + strings.Join(missing, ", ")
		}
		return ""
	})
}

// kstatus returns the status that Flux and others compute for the CacheNode.
func (o *operator) kstatus(cacheNode *v1alpha1.CacheNode) status.Status {
	o.t.Helper()
	o.get(cacheNode)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cacheNode)
	must(o.t, err)
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	must(o.t, err)
	// Argo CD, which does not read kstatus, must come to the same result.
	health, err := argocd.Check(content)
	must(o.t, err)
	if (health.Status == "Healthy") != (result.Status == status.CurrentStatus) ||
		(result.Status == status.FailedStatus && health.Status != "Degraded") {
		o.t.Errorf("Argo CD says %s (%s) where kstatus is %s: %s",
			health.Status, health.Message, result.Status, describe(cacheNode))
	}
	return result.Status
}

// becomes waits for a kstatus, and for a condition with a reason.
func (o *operator) becomes(cacheNode *v1alpha1.CacheNode, want status.Status, condition, reason string) {
	o.t.Helper()
	o.eventually(func() string {
		got := o.kstatus(cacheNode)
		for _, c := range cacheNode.Status.Conditions {
			if c.Type == condition && c.Reason == reason && got == want && c.ObservedGeneration == cacheNode.Generation {
				return ""
			}
		}
		return "kstatus is " + got.String() + ", want " + want.String() +
			" with " + condition + " for " + reason + ": " + describe(cacheNode)
	})
}

func describe(cacheNode *v1alpha1.CacheNode) string {
	var b strings.Builder
	for _, c := range cacheNode.Status.Conditions {
		b.WriteString("\n" + c.Type + "=" + string(c.Status) + " " + c.Reason + ": " + c.Message)
	}
	return b.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
