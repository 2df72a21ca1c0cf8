package purgeapi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/purgeapi/batch"
)

// Limits of a request.
const (
	// MaxBody is the maximum size of a body in bytes.
	MaxBody = 1 << 20
	// MaxTimeout is the longest time for which a request may wait. defaultTimeout is the time for a request that sets no
	// timeout.
	MaxTimeout     = time.Minute
	defaultTimeout = 10 * time.Second
	// maxCacheNode is the maximum length of the name of a CacheNode in bytes.
	maxCacheNode = 40
)

// Wait is the state that a purge must reach before the request is answered.
type Wait string

// The values of Wait.
const (
	WaitApplied Wait = "applied"
	WaitSettled Wait = "settled"
	WaitNone    Wait = "none"
)

// Request is the body of POST /v1/purges. Except for the last two, its fields are also in a CachePurge.
type Request struct {
	Namespace string `json:"namespace"`
	CacheNode string `json:"cacheNode"`
	purge.Target
	// Mode is Hard (default) or Soft.
	Mode v1alpha1.PurgeMode `json:"mode,omitempty"`
	// Wait is the state for which the answer waits. The default is WaitApplied.
	Wait Wait `json:"wait,omitempty"`
	// TimeoutSeconds is the longest time for which the answer waits, in seconds, from 1 to 60. The default is 10.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
}

// Parse reads a body, sets defaults and checks everything that it can check without the API server. An error names
// the field.
func Parse(body []byte) (r Request, err error) {
	unknown, err := json.UnmarshalStrict(body, &r)
	if err != nil {
		return Request{}, fmt.Errorf("the body must be one JSON object: %s", inFields(err))
	}
	if len(unknown) > 0 {
		return Request{}, unknown[0]
	}
	if r.Mode == "" {
		r.Mode = v1alpha1.PurgeHard
	}
	if r.Wait == "" {
		r.Wait = WaitApplied
	}
	if r.TimeoutSeconds == 0 {
		r.TimeoutSeconds = int(defaultTimeout.Seconds())
	}
	return r, r.check()
}

// goType matches the part of a decoder's error that names a field. This part contains the Go types of the struct and of
// the field.
var goType = regexp.MustCompile(`Go struct field Request\.([A-Za-z.]+) of type .*`)

// inFields returns the message of a decoder's error, with names of fields instead of Go types.
func inFields(err error) string {
	text := strings.TrimPrefix(err.Error(), "json: ")
	return goType.ReplaceAllString(strings.ReplaceAll(text, "Request.Target.", "Request."), "field $1")
}

func (r Request) check() error {
	switch {
	case len(validation.IsDNS1123Label(r.Namespace)) > 0:
		return fmt.Errorf("namespace: %.70q: must be the name of a namespace", r.Namespace)
	case len(validation.IsDNS1035Label(r.CacheNode)) > 0 || len(r.CacheNode) > maxCacheNode:
		return fmt.Errorf("cacheNode: %.70q: must be the name of a CacheNode", r.CacheNode)
	case r.Mode != v1alpha1.PurgeHard && r.Mode != v1alpha1.PurgeSoft:
		return fmt.Errorf("mode: %.20q: must be Hard or Soft", r.Mode)
	case !slices.Contains([]Wait{WaitApplied, WaitSettled, WaitNone}, r.Wait):
		return fmt.Errorf("wait: %.20q: must be applied, settled or none", r.Wait)
	case r.TimeoutSeconds < 1 || r.timeout() > MaxTimeout:
		return fmt.Errorf("timeoutSeconds: must be from 1 to %.0f", MaxTimeout.Seconds())
	case r.Everything && r.Items() > 0:
		return errors.New("everything: goes alone: remove urls, prefixes, hosts and tags")
	case r.Text() > purge.MaxText:
		return fmt.Errorf("names more than %d bytes of URLs, prefixes, hosts and tags: send several requests", purge.MaxText)
	}
	return r.CheckForm()
}

// timeout returns the longest time for which the answer waits.
func (r Request) timeout() time.Duration { return time.Duration(r.TimeoutSeconds) * time.Second }

// cost returns the amount that the request takes from a user's budget: one for each item, and at least one.
func (r Request) cost() int { return max(1, r.Items()) }

// key returns the batch key of the request. Requests with the same key can be gathered into one CachePurge.
func (r Request) key(user string) batch.Key {
	return batch.Key{
		User: user, Namespace: r.Namespace, CacheNode: r.CacheNode, Mode: r.Mode, ByHost: len(r.Hosts) > 0,
	}
}
