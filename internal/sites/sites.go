// Package sites defines what a CacheNode serves: the hosts, the origin and the cache policy of each site. Code that
// serves a site gets a [Site], and does not read these fields from a spec. A CacheNode may have its own site ([Own]),
// and its routes have other sites ([OfRoutes]). The package is pure.
//
// A value that depends only on a site belongs here, for example [Site.LockTimeout].
//
// The package may import the packages of names, shard, fleet and effective. Code that renders a configuration must get
// the fields that describe a site from this package.
package sites

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// Site describes the objects that are served for some hosts, with one origin and one cache policy.
type Site struct {
	// Hosts are the host names that clients may use; an empty list means all names.
	Hosts []v1alpha1.Hostname
	// Origin is the place where objects come from. Headers defines which headers of responses and of requests to the
	// origin are changed.
	Origin  v1alpha1.Origin
	Headers v1alpha1.Headers
	// Cache defines which responses are stored, under which keys and for how long.
	Cache v1alpha1.Cache
}

// Own returns the site that a CacheNode's own fields describe.
func Own(spec v1alpha1.CacheNodeSpec) Site {
	return Site{Hosts: spec.Hosts, Origin: spec.Origin, Headers: spec.Headers, Cache: spec.Cache}
}

// IsEmpty returns true for a site without an origin. A CacheNode that has only routes needs no origin.
func (s Site) IsEmpty() bool { return len(s.Origin.Servers) == 0 }

// OfRoutes returns the settings that all routes of a CacheNode share. The hosts and backends are in the routes
// themselves.
//
// rules are the rules of the policy for a route; nil for a route without a policy. Such a route is a shared cache as in
// RFC 9111: only responses that the origin marks as fresh are stored. The CacheNode's spec defines how objects are
// stored and renewed.
func OfRoutes(spec v1alpha1.CacheNodeSpec, rules *v1alpha1.CacheRules) Site {
	if rules == nil {
		rules = &v1alpha1.CacheRules{StaleWhileRevalidate: "30s", StaleIfError: "24h"}
	}
	own := spec.Cache
	policy := v1alpha1.Cache{
		CacheRules: *rules,
		Key:        []v1alpha1.KeyPart{v1alpha1.KeyScheme, v1alpha1.KeyHost, v1alpha1.KeyRequestURI},
		Lock:       own.Lock, BackgroundUpdate: own.BackgroundUpdate, Revalidate: own.Revalidate, MinUses: own.MinUses,
		Methods: own.Methods, Slice: own.Slice, StatusHeaders: own.StatusHeaders, NodeHeader: own.NodeHeader,
	}
	return Site{Cache: policy, Origin: v1alpha1.Origin{
		Scheme:    "http",
		Keepalive: v1alpha1.Keepalive{Connections: new(int32(32)), Requests: new(int32(1000)), Timeout: "60s"},
		Timeouts:  v1alpha1.OriginTimeouts{Connect: "5s", Read: "60s", Send: "60s"},
		Retries: v1alpha1.Retries{
			When: []v1alpha1.OriginFailure{"Error", "Timeout"}, Tries: new(int32(3)), Timeout: "10s",
		},
		FallbackConcurrency: new(int32(128)),
	}}
}

// LongestFetch returns the longest time until the origin has answered. It is the sum of the time in which attempts
// may begin (origin.retries.timeout) and the longest time of one attempt. A body may take longer, because
// origin.timeouts.read limits the time between two reads.
func (s Site) LongestFetch() time.Duration {
	o := s.Origin
	return effective.Duration(o.Timeouts.Connect) + effective.Duration(o.Timeouts.Read) +
		effective.Duration(o.Retries.Timeout)
}

// LockTimeout returns the time for which a request waits for the response to another request
// (proxy_cache_lock_timeout).
func (s Site) LockTimeout() time.Duration {
	if s.Cache.Lock.Timeout == "" {
		return s.LongestFetch()
	}
	return effective.Duration(s.Cache.Lock.Timeout)
}

// LockAge returns the time after which one more request may ask the origin (proxy_cache_lock_age).
func (s Site) LockAge() time.Duration {
	if s.Cache.Lock.Age == "" {
		return s.LongestFetch()
	}
	return effective.Duration(s.Cache.Lock.Age)
}
