package purgeapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/await"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// suite is an API server with several users.
type suite struct {
	client.Client
	config *rest.Config
	// The users cms and shop may purge in the namespaces shop and other. The user nobody may not purge.
	cms, shop, nobody string // tokens
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	config := apiserver.Start(t)
	s := &suite{Client: apiserver.Client(t, config), config: config}
	for _, name := range []string{"shop", "other", "closed"} {
		s.create(t, &corev1.Namespace{}, "", name)
	}
	s.account(t, "endpoint")
	// These are the same rules as in the chart.
	s.grant(t, "endpoint", "",
		rule("authentication.k8s.io", "tokenreviews", "create"),
		rule("authorization.k8s.io", "subjectaccessreviews", "create"),
		purges("create", "get", "list", "watch"))
	for _, name := range []string{"cms", "shop", "nobody"} {
		s.account(t, name)
	}
	for _, name := range []string{"cms", "shop"} {
		s.grant(t, name, "shop", purges("create", "get"))
		s.grant(t, name, "other", purges("create"))
	}
	s.cms, s.shop, s.nobody = s.token(t, "cms"), s.token(t, "shop"), s.token(t, "nobody")
	return s
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func purges(verbs ...string) rbacv1.PolicyRule { return rule("cachenode.io", "cachepurges", verbs...) }

func (s *suite) create(t *testing.T, object client.Object, namespace, name string) {
	t.Helper()
	object.SetNamespace(namespace)
	object.SetName(name)
	must(t, s.Create(t.Context(), object))
}

func (s *suite) account(t *testing.T, name string) {
	t.Helper()
	s.create(t, &corev1.ServiceAccount{}, "default", name)
}

// grant gives an account permissions in a namespace; "" means all namespaces.
func (s *suite) grant(t *testing.T, account, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: "default"}}
	if namespace == "" {
		s.create(t, &rbacv1.ClusterRole{Rules: rules}, "", account)
		s.create(t, &rbacv1.ClusterRoleBinding{
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: account}, Subjects: subjects,
		}, "", account)
		return
	}
	s.create(t, &rbacv1.Role{Rules: rules}, namespace, account)
	s.create(t, &rbacv1.RoleBinding{
		RoleRef: rbacv1.RoleRef{Kind: "Role", Name: account}, Subjects: subjects,
	}, namespace, account)
}

// token returns a token of an account for the given audiences.
func (s *suite) token(t *testing.T, account string, audiences ...string) string {
	t.Helper()
	owner := &corev1.ServiceAccount{}
	owner.Namespace, owner.Name = "default", account
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	must(t, s.SubResource("token").Create(t.Context(), owner, request))
	return request.Status.Token
}

// endpoint is a running endpoint.
type endpoint struct {
	url    string
	client *http.Client
	server *Server
	// clock is the endpoint's clock. It moves only when the test moves it.
	clock *clocktesting.FakeClock
	stop  context.CancelFunc
}

// start starts an endpoint with the permissions of the account "endpoint".
func (s *suite) start(t *testing.T, change func(*Options)) *endpoint {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	config := rest.AnonymousClientConfig(s.config)
	config.BearerToken = s.token(t, "endpoint")
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	options := Options{TTL: 300, TargetsPerSecond: 1000, Burst: 4000, MaxWaiting: 100, Clock: clock}
	change(&options)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: apiserver.Scheme(t), Cache: CacheOptions(options.Namespaces),
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	must(t, err)
	server, err := New(ctx, mgr, options, NewMetrics())
	must(t, err)
	listener := &Listener{Address: freeAddress(t), Handler: server.Handler()}
	must(t, mgr.Add(listener))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	e := &endpoint{url: "https://" + listener.Address, server: server, clock: clock, stop: stop}
	e.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
	}}
	t.Cleanup(func() {
		e.client.CloseIdleConnections() // this must come first, because a server waits a second for an open HTTP/2 connection
		stop()
		must(t, <-done)
	})
	isReady(t, listener)
	return e
}

// isReady waits until a listener accepts connections.
func isReady(t *testing.T, l *Listener) {
	t.Helper()
	await.Until(t, func() string {
		if err := l.Ready(nil); err != nil {
			return err.Error()
		}
		return ""
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, listener.Close())
	return listener.Addr().String()
}

// response is an answer of an endpoint.
type response struct {
	Answer
	Error  string `json:"error"`
	code   int
	header http.Header
}

// do sends a request. With a body, the request is a POST.
func (e *endpoint) do(t *testing.T, token, path, body string) (r response) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequest(method, e.url+path, bytes.NewReader([]byte(body)))
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return e.send(t, request)
}

func (e *endpoint) send(t *testing.T, request *http.Request) (r response) {
	t.Helper()
	got, err := e.client.Do(request)
	must(t, err)
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	must(t, err)
	if err := json.Unmarshal(text, &r); err != nil {
		t.Errorf("the answer is %q: %v", text, err)
	}
	r.code, r.header = got.StatusCode, got.Header
	return r
}

// purge sends a purge.
func (e *endpoint) purge(t *testing.T, token, body string) response {
	t.Helper()
	return e.do(t, token, "/v1/purges", body)
}

// await blocks until the given number of requests wait for a CachePurge.
func (e *endpoint) await(t *testing.T, requests int) {
	t.Helper()
	await.Until(t, func() string {
		e.server.watcher.mutex.Lock()
		defer e.server.watcher.mutex.Unlock()
		n := 0
		for _, of := range e.server.watcher.waiting {
			n += len(of)
		}
		if n != requests {
			return fmt.Sprintf("%d requests wait", n)
		}
		return ""
	})
}

// knows waits until the endpoint knows the status of a CachePurge.
func (e *endpoint) knows(t *testing.T, cp *v1alpha1.CachePurge) {
	t.Helper()
	await.Until(t, func() string {
		known := &v1alpha1.CachePurge{}
		err := e.server.watcher.reader.Get(t.Context(), client.ObjectKeyFromObject(cp), known)
		if err == nil && known.Status.Phase == cp.Status.Phase {
			return ""
		}
		return fmt.Sprintf("the endpoint's cache has phase %q, error %v", known.Status.Phase, err)
	})
}

// gathers blocks until the given number of requests are in the given number of batches, which still gather. Each
// request has two timers: one for its answer, and one for its CachePurge. Each batch has one timer.
func (e *endpoint) gathers(t *testing.T, requests, batches int) {
	t.Helper()
	await.Until(t, func() string {
		if n := e.clock.Waiters(); n != 2*requests+batches {
			return fmt.Sprintf("%d timers run", n)
		}
		return ""
	})
}

// tagged returns the CachePurges in a namespace that have a tag.
func (s *suite) tagged(t *testing.T, namespace, tag string) (found []v1alpha1.CachePurge) {
	t.Helper()
	list := &v1alpha1.CachePurgeList{}
	must(t, s.List(t.Context(), list, client.InNamespace(namespace)))
	for _, cp := range list.Items {
		for _, one := range cp.Spec.Tags {
			if one == tag {
				found = append(found, cp)
			}
		}
	}
	return found
}

// becomes waits until there is a CachePurge with the tag, and sets its status as the operator would.
func (s *suite) becomes(t *testing.T, tag string, status v1alpha1.CachePurgeStatus) *v1alpha1.CachePurge {
	t.Helper()
	var found []v1alpha1.CachePurge
	await.Until(t, func() string {
		if found = s.tagged(t, "shop", tag); len(found) != 1 {
			return fmt.Sprintf("%d CachePurges have the tag %s", len(found), tag)
		}
		return ""
	})
	cp := &found[0]
	before := cp.DeepCopy()
	cp.Status = status
	must(t, s.Status().Patch(t.Context(), cp, client.MergeFrom(before)))
	return cp
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
