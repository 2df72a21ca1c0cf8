// Package purgeapi implements the HTTP endpoint for purges. It creates CachePurges for users who may create them, and
// waits for these CachePurges. It reads no Secret and no CacheNode.
//
// The package may import naming and purge. CachePurges are the only objects of the API that it uses. A new field of a
// request and its cost belong in request.go. The budgets for costs are in limits.go.
package purgeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/purgeapi/batch"
)

// These are the limits of request bodies that are being read or that wait for their CachePurge. They limit the bytes of
// all users together, the bytes of one user, and the time to read one body.
const (
	maxBodies   = 16 << 20
	userBodies  = 4 << 20
	bodyTimeout = 10 * time.Second
)

// Options are the options of the endpoint.
type Options struct {
	// Namespaces are the namespaces in which purges are created; an empty list stands for all namespaces.
	Namespaces []string
	// Audiences are the audiences of which a token must have at least one. An empty list stands for the API server's own
	// audiences.
	Audiences []string
	// TTL is the time in seconds after which a finished CachePurge is deleted. It is at least 1.
	TTL int32
	// BatchWindow is the minimum time for which requests are gathered.
	BatchWindow time.Duration
	// TargetsPerSecond is the number of URLs, prefixes, hosts and tags that a user may purge each second. Burst is the
	// number that a user may purge at once.
	TargetsPerSecond, Burst int
	// MaxWaiting is the maximum number of requests that are answered at the same time. One user may have at most half of
	// them.
	MaxWaiting int
	// Clock is the clock for the time that requests gather and wait, and for the budgets; nil means the real clock.
	Clock clock.WithDelayedExecution
}

// Server answers requests for purges. It is safe for concurrent use.
type Server struct {
	clock      clock.WithDelayedExecution
	access     *access
	budgets    *budgets
	requests   *shares
	bodies     *shares
	gatherer   *gatherer
	watcher    *watcher
	live       client.Reader
	namespaces []string
	metrics    *Metrics
}

// New returns a server. The cluster's cache must have been created with CacheOptions. After the context has ended, the
// server sends requests at once instead of gathering them.
func New(ctx context.Context, c cluster.Cluster, o Options, m *Metrics) (*Server, error) {
	access, err := newAccess(c.GetConfig(), c.GetHTTPClient(), o.Audiences)
	if err != nil {
		return nil, err
	}
	watcher, err := newWatcher(ctx, c.GetCache())
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Server{
		clock:      o.Clock,
		access:     access,
		budgets:    newBudgets(o.TargetsPerSecond, o.Burst),
		requests:   newShares(int64(o.MaxWaiting), max(1, int64(o.MaxWaiting)/2)),
		bodies:     newShares(maxBodies, userBodies),
		watcher:    watcher,
		live:       c.GetAPIReader(),
		namespaces: o.Namespaces,
		metrics:    m,
		gatherer: &gatherer{
			client: c.GetClient(), ttl: o.TTL, metrics: m, clock: o.Clock, ended: ctx.Done(),
			queue: batch.Queue[chan<- created]{Window: o.BatchWindow},
		},
	}, nil
}

// Handler returns the handler for all paths of the endpoint.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/purges", s.endpoint(s.post))
	mux.Handle("GET /v1/purges/{namespace}/{name}", s.endpoint(s.get))
	mux.Handle("/", s.endpoint(func(http.ResponseWriter, *http.Request, user.Info) (int, Answer, error) {
		return 0, Answer{}, &problem{
			code: http.StatusNotFound, text: "there are POST /v1/purges and GET /v1/purges/NAMESPACE/NAME",
		}
	}))
	return mux
}

// endpoint returns a handler that authenticates a request and writes the answer.
func (s *Server) endpoint(
	answer func(http.ResponseWriter, *http.Request, user.Info) (int, Answer, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		code, a, err := 0, Answer{}, error(nil)
		who, err := s.access.requester(r, s.clock.Now())
		if err == nil {
			if s.requests.take(who.GetName(), 1) {
				defer s.requests.give(who.GetName(), 1)
				code, a, err = answer(w, r, who)
			} else {
				err = unavailable("too many requests wait already: send the request again, or with a shorter timeoutSeconds")
			}
		}
		if err == nil {
			s.metrics.count(code)
			write(w, code, a)
			return
		}
		p := problemOf(err)
		ctrl.Log.V(1).Info("a request was refused", "code", p.code, "because", p.text)
		s.metrics.count(p.code)
		writeProblem(w, p)
	}
}

// post creates a purge and waits for it.
func (s *Server) post(w http.ResponseWriter, r *http.Request, who user.Info) (int, Answer, error) {
	request, free, err := s.read(w, r, who.GetName())
	if err != nil {
		return 0, Answer{}, err
	}
	defer free()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer s.clock.AfterFunc(request.timeout(), cancel).Stop()
	if err := s.knows(request.Namespace); err != nil {
		return 0, Answer{}, err
	}
	// The budget is charged before the permission is checked, because a refusal by the API server costs something too.
	if err := s.budgets.take(who.GetName(), request.cost(), s.clock.Now()); err != nil {
		return 0, Answer{}, err
	}
	// This call does not use ctx. timeoutSeconds is for the purge only, so a short timeout must not end the wait for the
	// API server's answer.
	if err := s.access.allow(r.Context(), who, "create", request.Namespace, ""); err != nil {
		return 0, Answer{}, err
	}
	name, err := s.gatherer.create(request.key(who.GetName()), request.Target)
	if err != nil {
		return 0, Answer{}, err
	}
	free()
	request.Target = purge.Target{} // releases the memory of the target, which can be large, during a long wait
	cp := &v1alpha1.CachePurge{}
	cp.Namespace, cp.Name, cp.Spec.CacheNode = request.Namespace, name, request.CacheNode
	if request.Wait == WaitNone {
		a := answerOf(cp)
		a.Message = fmt.Sprintf("created: GET /v1/purges/%s/%s says how far it has come", cp.Namespace, cp.Name)
		return http.StatusAccepted, a, nil
	}
	isDone := func(cp *v1alpha1.CachePurge) bool {
		return codeOf(cp.Status.Phase, request.Wait) != http.StatusAccepted
	}
	if cp, err = s.watcher.await(ctx, cp, isDone); err != nil {
		return 0, Answer{}, err
	}
	return codeOf(cp.Status.Phase, request.Wait), answerOf(cp), nil
}

// codeOf returns the status code for a phase. The code is 202 until the purge fails or reaches the phase for which the
// request waits.
func codeOf(phase v1alpha1.PurgePhase, wait Wait) int {
	switch {
	case phase == v1alpha1.PurgeFailed:
		return http.StatusUnprocessableEntity
	case phase == v1alpha1.PurgeSettled, phase == v1alpha1.PurgeApplied && wait == WaitApplied:
		return http.StatusOK
	default:
		return http.StatusAccepted
	}
}

// get returns the progress of a purge.
func (s *Server) get(_ http.ResponseWriter, r *http.Request, who user.Info) (int, Answer, error) {
	key := client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if err := s.knows(key.Namespace); err != nil {
		return 0, Answer{}, err
	}
	if err := s.budgets.take(who.GetName(), 1, s.clock.Now()); err != nil {
		return 0, Answer{}, err
	}
	if err := s.access.allow(r.Context(), who, "get", key.Namespace, key.Name); err != nil {
		return 0, Answer{}, err
	}
	cp := &v1alpha1.CachePurge{}
	err := s.watcher.reader.Get(r.Context(), key, cp)
	if apierrors.IsNotFound(err) { // the purge may be too new for the cache
		err = s.live.Get(r.Context(), key, cp)
	}
	return http.StatusOK, answerOf(cp), err
}

// knows returns nil if the endpoint is responsible for purges of a namespace.
func (s *Server) knows(namespace string) error {
	if len(s.namespaces) == 0 || slices.Contains(s.namespaces, namespace) {
		return nil
	}
	return &problem{
		code: http.StatusNotFound, text: fmt.Sprintf("namespace: %q is not one that this operator manages", namespace),
	}
}

// read reads the body of a request. The caller must call free at least once, when it has passed the request on.
func (s *Server) read(w http.ResponseWriter, r *http.Request, user string) (request Request, free func(), err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return Request{}, nil, &problem{
			code: http.StatusUnsupportedMediaType, text: "the header Content-Type must be application/json",
		}
	}
	size := r.ContentLength
	if size < 0 || size > MaxBody {
		size = MaxBody
	}
	if !s.bodies.take(user, size) {
		return Request{}, nil, unavailable("too many requests are read already: send the request again")
	}
	release := sync.OnceFunc(func() { s.bodies.give(user, size) })
	defer func() {
		if err != nil {
			release()
		}
	}()
	body, err := readBody(w, r)
	if err != nil {
		return Request{}, nil, err
	}
	rest := size - int64(len(body))
	size -= rest
	s.bodies.give(user, rest)
	if request, err = Parse(body); err != nil {
		return Request{}, nil, &problem{code: http.StatusBadRequest, text: err.Error()}
	}
	return request, release, nil
}

// readBody reads a whole body, within the limits of size and time.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	connection := http.NewResponseController(w)
	deadline := time.Now().Add(bodyTimeout) //nolint:forbidigo // deadlines of connections need the real clock
	if err := connection.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &problem{
			code: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body has more than %d bytes: divide it", MaxBody),
		}
	case err != nil:
		return nil, &problem{code: http.StatusBadRequest, text: fmt.Sprintf("the body ends early: %s", err)}
	}
	return body, connection.SetReadDeadline(time.Time{})
}
