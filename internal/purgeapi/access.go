package purgeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// remember is the time for which a permission is remembered. A user who loses a permission can still use it for at most
// this time. rememberShort is the shorter time for which tokens and refused permissions are remembered.
const (
	remember      = time.Minute
	rememberShort = 10 * time.Second
	reviewTimeout = 10 * time.Second
	// maxReviews is the maximum number of tokens that are checked at the same time. reviewPatience is the longest time for
	// which a request waits until its token is checked.
	maxReviews     = 50
	reviewPatience = time.Second
)

// access asks the API server which user sends a request, and what this user may do. It is safe for concurrent use.
type access struct {
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	// audiences are the audiences of which a token must have at least one. An empty list stands for the API server's own
	// audiences.
	audiences authenticator.Audiences
	reviews   *semaphore.Weighted
	strangers *strangers
}

func newAccess(config *rest.Config, httpClient *http.Client, audiences []string) (*access, error) {
	authentication, err := authenticationv1.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationv1.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, err
	}
	backoff := &wait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}
	a := &access{audiences: audiences, reviews: semaphore.NewWeighted(maxReviews), strangers: newStrangers()}
	a.authenticator, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous:                &apiserver.AnonymousAuthConfig{Enabled: false},
		CacheTTL:                 rememberShort,
		TokenAccessReviewClient:  authentication,
		TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff:      backoff,
	}.New()
	if err != nil {
		return nil, err
	}
	a.authorizer, err = authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: authorization,
		AllowCacheTTL:             remember,
		DenyCacheTTL:              rememberShort,
		WebhookRetryBackoff:       backoff,
	}.New()
	return a, err
}

// requester returns the user to whom the token of a request belongs.
func (a *access) requester(r *http.Request, now time.Time) (user.Info, error) {
	token := tokenOf(r)
	if token == "" {
		return nil, &problem{
			code: http.StatusUnauthorized,
			text: "send the header Authorization: Bearer TOKEN with the token of a ServiceAccount",
		}
	}
	if a.strangers.isRefused(token, now) {
		return nil, a.notValid()
	}
	found, may := a.strangers.may(r.RemoteAddr, token, now)
	if !may {
		return nil, &problem{
			code: http.StatusTooManyRequests, retry: time.Second,
			text: "too many tokens that are not valid were sent: send the request later",
		}
	}
	is := unknown
	defer func() { found(is) }()
	if len(a.audiences) > 0 {
		r = r.WithContext(authenticator.WithAudiences(r.Context(), a.audiences))
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewPatience)
	defer cancel()
	if a.reviews.Acquire(ctx, 1) != nil {
		return nil, unavailable("too many tokens are being looked at: send the request again")
	}
	defer a.reviews.Release(1)
	response, isKnown, err := a.authenticator.AuthenticateRequest(r)
	switch {
	case isKnown && err == nil:
		is = valid
		return response.User, nil
	case isOutage(err):
		return nil, unavailable("the API server does not say whose token this is, send the request again: %s", err)
	}
	is = wrong
	return nil, a.notValid()
}

func (a *access) notValid() *problem {
	text := "the token is not valid, or has expired"
	if len(a.audiences) > 0 {
		text += fmt.Sprintf(": it must have the audience %s", strings.Join(a.audiences, " or "))
	}
	return &problem{code: http.StatusUnauthorized, text: text}
}

// isOutage returns true for an error that means that the API server does not answer. It returns false if the API server
// answers that it does not accept a token.
func isOutage(err error) bool {
	var list interface{ Errors() []error } // an aggregate error of apimachinery, which has no method Unwrap
	if errors.As(err, &list) {
		return slices.ContainsFunc(list.Errors(), isOutage)
	}
	var status apierrors.APIStatus
	var unreachable *url.Error
	return errors.As(err, &status) || errors.As(err, &unreachable) || errors.Is(err, context.DeadlineExceeded)
}

// allow returns nil if a user may use a verb on CachePurges of a namespace. name is the name of one CachePurge; ""
// means all CachePurges.
func (a *access) allow(ctx context.Context, who user.Info, verb, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	decision, _, err := a.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: who, Verb: verb, Namespace: namespace, Name: name, ResourceRequest: true, Resource: "cachepurges",
		APIGroup: v1alpha1.GroupVersion.Group, APIVersion: v1alpha1.GroupVersion.Version,
	})
	switch {
	case err != nil:
		return unavailable("the API server does not say what %s may do, send the request again: %s", who.GetName(), err)
	case decision != authorizer.DecisionAllow:
		return &problem{code: http.StatusForbidden, text: fmt.Sprintf(
			"%s may not %s cachepurges.%s in namespace %s: grant that with a Role and a RoleBinding",
			who.GetName(), verb, v1alpha1.GroupVersion.Group, namespace)}
	}
	return nil
}
