package purgeapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/await"
)

const cms = "system:serviceaccount:default:cms"

// TestEndpoint runs the endpoint with a real API server. The test itself acts as the operator.
func TestEndpoint(t *testing.T) {
	s := newSuite(t)
	for name, test := range map[string]func(*testing.T, *suite){
		"who may purge": mayPurge, "what is wrong with a request": refuses, "a purge": purgesOnce, "how long": waits,
		"a slow API server":  waitsForRights,
		"a purge that fails": fails, "a purge that is deleted": isDeleted, "the state of a purge": tells,
		"audiences": hasAudiences, "namespaces": hasNamespaces, "requests are gathered": gathers,
		"the API server refuses one of several": spoilsNothing, "too many targets": hasBudgets,
		"too many requests": hasPlaces, "the end": ends, "wrong tokens": asksRarely,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func usual(*Options) {}

// tagged returns a request for a tag.
func tagged(tag, more string) string { return body(fmt.Sprintf(`"tags":[%q]%s`, tag, more)) }

func mayPurge(t *testing.T, s *suite) {
	e := s.start(t, usual)
	for name, tt := range map[string]struct {
		token, path, body string
		code              int
		error             string
	}{
		"no token":               {body: tagged("w", ""), code: 401, error: "send the header Authorization: Bearer TOKEN"},
		"no token for the state": {path: "/shop/edge", code: 401, error: "send the header Authorization: Bearer TOKEN"},
		"a false token": {
			token: "a.b.c", body: tagged("w", ""), code: 401, error: "the token is not valid, or has expired",
		},
		"no right": {
			token: s.nobody, body: tagged("w", ""), code: 403,
			error: "system:serviceaccount:default:nobody may not create cachepurges.cachenode.io in namespace shop: " +
				"grant that with a Role and a RoleBinding",
		},
		"no right to read": {
			token: s.cms, path: "/other/edge", code: 403,
			error: cms + " may not get cachepurges.cachenode.io in namespace other: grant that with a Role and a RoleBinding",
		},
		"a right": {token: s.cms, body: tagged("w", `,"wait":"none"`), code: 202},
	} {
		t.Run(name, func(t *testing.T) {
			r := e.do(t, tt.token, "/v1/purges"+tt.path, tt.body)
			if r.code != tt.code || !strings.HasPrefix(r.Error, tt.error) {
				t.Errorf("status %d, %q, want %d, %q", r.code, r.Error, tt.code, tt.error)
			}
			if asks := r.header.Get("WWW-Authenticate") == "Bearer"; asks != (tt.code == 401) {
				t.Errorf("it asks for a token: %t", asks)
			}
		})
	}
}

func refuses(t *testing.T, s *suite) {
	e := s.start(t, usual)
	for name, tt := range map[string]struct {
		path, kind, body string
		code             int
		error            string
	}{
		"a wrong field": {body: body(`"tag":[]`), code: 400, error: `unknown field "tag"`},
		"a wrong value": {body: body(`"urls":["a"]`), code: 400, error: `urls: "a": must begin with http:// or https://`},
		"a wrong value that only the API server knows": {
			body: body(`"hosts":["` + strings.Repeat("a", 254) + `"]`), code: 400, error: "hosts[0]: ",
		},
		"a long body": {
			body: body(`"tags":["` + strings.Repeat("a", MaxBody) + `"]`), code: 413,
			error: "the body has more than 1048576 bytes",
		},
		"another kind": {kind: "text/plain", body: tagged("w", ""), code: 415, error: "the header Content-Type must be"},
		"another path": {path: "/all", body: tagged("w", ""), code: 404, error: "there are POST /v1/purges and GET"},
		"a namespace that is not there": {
			body: strings.Replace(tagged("w", ""), "shop", "closed", 1), code: 403, error: cms + " may not create",
		},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequest(http.MethodPost, e.url+"/v1/purges"+tt.path, strings.NewReader(tt.body))
			must(t, err)
			request.Header.Set("Authorization", "Bearer "+s.cms)
			request.Header.Set("Content-Type", "application/json; charset=utf-8")
			if tt.kind != "" {
				request.Header.Set("Content-Type", tt.kind)
			}
			if r := e.send(t, request); r.code != tt.code || !strings.HasPrefix(r.Error, tt.error) {
				t.Errorf("status %d, %q, want %d, %q", r.code, r.Error, tt.code, tt.error)
			}
		})
	}
}

// purgesOnce checks the CachePurge that is created, and the answer when this CachePurge is applied.
func purgesOnce(t *testing.T, s *suite) {
	e := s.start(t, usual)
	var r response
	var waiting sync.WaitGroup
	waiting.Go(func() {
		r = e.purge(t, s.cms, tagged("once", `,"urls":["http://a/"],"prefixes":["http://a/b"],"hosts":["a"],"mode":"Soft"`))
	})
	cp := s.becomes(t, "once", v1alpha1.CachePurgeStatus{
		Phase: v1alpha1.PurgeApplied, Files: 14, Bytes: 402133, SlowestPod: "edge-1",
		Pods: []v1alpha1.PurgePodStatus{{Name: "edge-0", Phase: "Applied"}, {Name: "edge-1", Phase: "Applied"}},
	})
	waiting.Wait()
	want := Answer{
		Namespace: "shop", Name: cp.Name, Phase: "Applied", Pods: 2, Files: 14, Bytes: 402133, SlowestPod: "edge-1",
	}
	if diff := cmp.Diff(want, r.Answer); diff != "" || r.code != 200 {
		t.Errorf("status %d, %s (-want +got)\n%s", r.code, r.Error, diff)
	}
	spec := v1alpha1.CachePurgeSpec{
		CacheNode: "edge", URLs: []string{"http://a/"}, Prefixes: []string{"http://a/b"}, Hosts: []string{"a"},
		Tags: []string{"once"}, Mode: "Soft", TTLSecondsAfterFinished: new(int32(300)),
	}
	if diff := cmp.Diff(spec, cp.Spec); diff != "" || cp.Annotations[naming.AnnotationRequestedBy] != cms {
		t.Errorf("requested by %q (-want +got)\n%s", cp.Annotations[naming.AnnotationRequestedBy], diff)
	}
}

func waits(t *testing.T, s *suite) {
	for name, tt := range map[string]struct {
		phase   v1alpha1.PurgePhase // "": the operator does nothing
		how     string
		after   time.Duration // 0: the answer does not wait for the clock
		code    int
		message string
	}{
		"none": {how: `,"wait":"none"`, code: 202, message: "created: GET /v1/purges/shop/"},
		"nobody-is-there": {
			how: `,"timeoutSeconds":1`, after: time.Second, code: 202, message: "the operator has not seen the purge yet",
		},
		"pending": {
			phase: "Pending", how: `,"timeoutSeconds":2`, after: 2 * time.Second, code: 202, message: "says the test",
		},
		"pending-for-long": {phase: "Pending", how: "", after: defaultTimeout, code: 202},
		"applied-until-settled": {
			phase: "Applied", how: `,"wait":"settled","timeoutSeconds":2`, after: 2 * time.Second, code: 202,
		},
		"settled":                {phase: "Settled", how: `,"wait":"settled"`, code: 200},
		"settled-is-applied-too": {phase: "Settled", code: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := s.start(t, usual)
			answered := make(chan response, 1)
			go func() { answered <- e.purge(t, s.cms, tagged(name, tt.how)) }()
			if tt.phase != "" {
				e.knows(t, s.becomes(t, name, v1alpha1.CachePurgeStatus{Phase: tt.phase, Message: "says the test"}))
			}
			if tt.after > 0 {
				e.await(t, 1)
				timers := e.clock.Waiters()
				e.clock.Step(tt.after - time.Nanosecond)
				if left := e.clock.Waiters(); left != timers {
					t.Errorf("%d of %d timers have ended before the time of the request", timers-left, timers)
				}
				e.clock.Step(time.Nanosecond)
			}
			r, want := <-answered, tt.phase
			if want == "" {
				want = v1alpha1.PurgePending
			}
			if r.code != tt.code || r.Phase != want || !strings.HasPrefix(r.Message, tt.message) {
				t.Errorf("status %d, phase %s, %q, want %d, %s, %q", r.code, r.Phase, r.Message, tt.code, want, tt.message)
			}
		})
	}
}

// waitsForRights checks that the timeout in a request applies only to the purge. It does not apply to the permission
// check by the API server.
func waitsForRights(t *testing.T, s *suite) {
	e := s.start(t, usual)
	review := e.server.access.authorizer
	e.server.access.authorizer = authorizer.AuthorizerFunc(
		func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			e.clock.Step(2 * time.Second)
			return review.Authorize(ctx, a)
		})
	r := e.purge(t, s.cms, tagged("slow", `,"timeoutSeconds":1`))
	if r.code != 202 || r.Name == "" {
		t.Errorf("status %d, %q, want 202 and the name of a CachePurge", r.code, r.Error)
	}
}

func fails(t *testing.T, s *suite) {
	e := s.start(t, usual)
	var r response
	var waiting sync.WaitGroup
	waiting.Go(func() { r = e.purge(t, s.cms, tagged("fails", `,"wait":"settled"`)) })
	s.becomes(t, "fails", v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeFailed, Message: "spec.hosts: no"})
	waiting.Wait()
	if r.code != 422 || r.Phase != "Failed" || r.Message != "spec.hosts: no" {
		t.Errorf("status %d, %+v", r.code, r)
	}
}

func isDeleted(t *testing.T, s *suite) {
	e := s.start(t, usual)
	var r response
	var waiting sync.WaitGroup
	waiting.Go(func() { r = e.purge(t, s.cms, tagged("deleted", `,"timeoutSeconds":60`)) })
	cp := s.becomes(t, "deleted", v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgePending})
	e.await(t, 1)
	must(t, s.Delete(t.Context(), cp))
	waiting.Wait()
	if r.code != 404 || !strings.Contains(r.Error, "was deleted") {
		t.Errorf("status %d, %q", r.code, r.Error)
	}
}

func tells(t *testing.T, s *suite) {
	e := s.start(t, usual)
	r := e.purge(t, s.cms, tagged("state", `,"wait":"none"`))
	path := "/v1/purges/shop/" + r.Name
	if got := e.do(t, s.cms, path, ""); got.code != 200 || got.Phase != "Pending" { // even if the cache lags behind
		t.Errorf("status %d, %+v", got.code, got)
	}
	s.becomes(t, "state", v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeSettled, Files: 3})
	want := Answer{Namespace: "shop", Name: r.Name, Phase: "Settled", Files: 3}
	await.Until(t, func() string {
		got := e.do(t, s.cms, path, "")
		if diff := cmp.Diff(want, got.Answer); diff != "" || got.code != 200 {
			return fmt.Sprintf("status %d (-want +got)\n%s", got.code, diff)
		}
		return ""
	})
	if got := e.do(t, s.cms, path+"x", ""); got.code != 404 || !strings.Contains(got.Error, "not found") {
		t.Errorf("of one that is not there: status %d, %q", got.code, got.Error)
	}
}

func hasAudiences(t *testing.T, s *suite) {
	e := s.start(t, func(o *Options) { o.Audiences = []string{"purge", "cdn"} })
	for _, tt := range []struct {
		audience string
		code     int
	}{{"purge", 202}, {"cdn", 202}, {"vault", 401}} {
		r := e.purge(t, s.token(t, "cms", tt.audience), tagged("audience", `,"wait":"none"`))
		if r.code != tt.code {
			t.Errorf("audience %s: status %d, %q, want %d", tt.audience, r.code, r.Error, tt.code)
		}
	}
	if r := e.purge(t, s.cms, tagged("audience", "")); r.code != 401 || !strings.Contains(r.Error, "purge or cdn") {
		t.Errorf("the API server's own audience: status %d, %q", r.code, r.Error)
	}
}

func hasNamespaces(t *testing.T, s *suite) {
	e := s.start(t, func(o *Options) { o.Namespaces = []string{"shop"} })
	request := tagged("namespaces", `,"wait":"none"`)
	if r := e.purge(t, s.cms, request); r.code != 202 {
		t.Errorf("in the namespace: status %d, %q", r.code, r.Error)
	}
	for _, r := range []response{
		e.purge(t, s.cms, strings.Replace(request, "shop", "other", 1)), e.do(t, s.cms, "/v1/purges/other/edge", ""),
	} {
		if r.code != 404 || r.Error != `namespace: "other" is not one that this operator manages` {
			t.Errorf("in another namespace: status %d, %q", r.code, r.Error)
		}
	}
}

// together sends several requests at the same time, and returns the responses.
func (e *endpoint) together(t *testing.T, token string, bodies ...string) []response {
	t.Helper()
	responses := make([]response, len(bodies))
	var all sync.WaitGroup
	for i, text := range bodies {
		all.Go(func() { responses[i] = e.purge(t, token, text) })
	}
	all.Wait()
	return responses
}

func gathers(t *testing.T, s *suite) {
	e := s.start(t, func(o *Options) { o.BatchWindow = 2 * time.Second })
	hard, soft := `,"wait":"none"`, `,"wait":"none","mode":"Soft"`
	var got, other []response
	var all sync.WaitGroup
	all.Go(func() { other = e.together(t, s.shop, tagged("b4", hard)) })
	all.Go(func() {
		got = e.together(t, s.cms, tagged("b0", hard), tagged("b1", hard), tagged("b2", hard), tagged("b3", soft))
	})
	e.gathers(t, 5, 3)
	e.clock.Step(2 * time.Second)
	all.Wait()
	var names []string
	for _, r := range append(got, other...) {
		if r.code != 202 {
			t.Errorf("status %d, %s", r.code, r.Error)
		}
		names = append(names, r.Name)
	}
	different := slices.Compact(slices.Clone(names))
	if names[0] != names[2] || len(different) != 3 || names[3] == names[4] || names[0] == names[4] {
		t.Errorf("the names are %v, want the first three to be the same, and no others", names)
	}
	tags := s.tagged(t, "shop", "b0")[0].Spec.Tags
	slices.Sort(tags)
	if diff := cmp.Diff([]string{"b0", "b1", "b2"}, tags); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// spoilsNothing checks a request that only the API server can refuse. It must not affect other requests in the same
// batch.
func spoilsNothing(t *testing.T, s *suite) {
	e := s.start(t, func(o *Options) { o.BatchWindow = 2 * time.Second })
	var got []response
	var all sync.WaitGroup
	all.Go(func() {
		got = e.together(t, s.cms, tagged("s0", `,"wait":"none"`),
			tagged("s1", `,"wait":"none","urls":["HTTP://a/"]`), tagged("s2", `,"wait":"none"`))
	})
	e.gathers(t, 3, 1)
	e.clock.Step(2 * time.Second)
	all.Wait()
	for i, want := range []int{202, 400, 202} {
		if got[i].code != want {
			t.Errorf("request %d: status %d, %q, want %d", i, got[i].code, got[i].Error, want)
		}
	}
	if !strings.HasPrefix(got[1].Error, "urls: each must be http:// or https:// and a host") {
		t.Errorf("the error is %q", got[1].Error)
	}
	for tag, want := range map[string]int{"s0": 1, "s1": 0, "s2": 1} {
		if n := len(s.tagged(t, "shop", tag)); n != want {
			t.Errorf("%s is in %d CachePurges, want %d", tag, n, want)
		}
	}
}

func hasBudgets(t *testing.T, s *suite) {
	e := s.start(t, func(o *Options) { o.TargetsPerSecond, o.Burst = 1, 20 })
	twenty := body(`"wait":"none","tags":[` + items(20, "budget") + `]`)
	if r := e.purge(t, s.cms, body(`"tags":[`+items(21, "budget")+`]`)); r.code != 413 || r.Error == "" {
		t.Errorf("more than the burst: status %d, %q", r.code, r.Error)
	}
	if r := e.purge(t, s.cms, twenty); r.code != 202 {
		t.Errorf("the burst: status %d, %q", r.code, r.Error)
	}
	if r := e.purge(t, s.cms, twenty); r.code != 429 || r.header.Get("Retry-After") == "" {
		t.Errorf("twice the burst: status %d, Retry-After %q", r.code, r.header.Get("Retry-After"))
	}
	if r := e.purge(t, s.shop, twenty); r.code != 202 {
		t.Errorf("another user: status %d, %q", r.code, r.Error)
	}
}

func hasPlaces(t *testing.T, s *suite) {
	e := s.start(t, func(o *Options) { o.MaxWaiting = 2 })
	var first response
	var waiting sync.WaitGroup
	waiting.Go(func() { first = e.purge(t, s.cms, tagged("place", `,"timeoutSeconds":60`)) })
	e.await(t, 1)
	if r := e.purge(t, s.cms, tagged("place", "")); r.code != 503 || r.header.Get("Retry-After") != "1" {
		t.Errorf("a second request of the user: status %d, Retry-After %q", r.code, r.header.Get("Retry-After"))
	}
	if r := e.purge(t, s.shop, tagged("place-2", `,"wait":"none"`)); r.code != 202 {
		t.Errorf("another user: status %d, %q", r.code, r.Error)
	}
	s.becomes(t, "place", v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgeApplied})
	if waiting.Wait(); first.code != 200 {
		t.Errorf("the first request: status %d, %q", first.code, first.Error)
	}
	if r := e.purge(t, s.cms, tagged("place-3", `,"wait":"none"`)); r.code != 202 {
		t.Errorf("after the first request: status %d, %q", r.code, r.Error)
	}
}

// ends checks that waiting requests get an answer when the endpoint ends.
func ends(t *testing.T, s *suite) {
	e := s.start(t, usual)
	var r response
	var waiting sync.WaitGroup
	waiting.Go(func() { r = e.purge(t, s.cms, tagged("end", `,"timeoutSeconds":60`)) })
	cp := s.becomes(t, "end", v1alpha1.CachePurgeStatus{Phase: v1alpha1.PurgePending})
	e.stop()
	waiting.Wait()
	want := Answer{Namespace: "shop", Name: cp.Name, Phase: "Pending"}
	if diff := cmp.Diff(want, r.Answer, cmpopts.IgnoreFields(Answer{}, "Message")); diff != "" || r.code != 202 {
		t.Errorf("status %d, %q (-want +got)\n%s", r.code, r.Error, diff)
	}
}

// TestOutage checks that a token is not called invalid if the API server does not answer.
func TestOutage(t *testing.T) {
	t.Parallel()
	a, err := newAccess(&rest.Config{Host: "http://" + freeAddress(t)}, http.DefaultClient, nil)
	must(t, err)
	request, err := http.NewRequest(http.MethodGet, "https://purges/", nil)
	must(t, err)
	request.Header.Set("Authorization", "Bearer a.b.c")
	if _, err = a.requester(request, time.Time{}); codeOfError(err) != 503 {
		t.Errorf("error %v, want a 503", err)
	}
}
