// Package sites defines what a CacheNode serves: the hosts, the origin and the cache policy of each site. No other
// package reads them from a spec: code that serves a site gets a [Site]. A CacheNode may have a site of its own
// ([Own]), and its routes have other sites ([OfRoutes]). The package is pure.
//
// A value that depends on a site and on nothing else belongs here, such as [Site.LockTimeout].
//
// It may import the packages of names, shard, fleet and effective. Only this package reads the fields of a spec that
// describe a site.
package sites

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// Site describes what is served for some hosts from one origin under one policy.
type Site struct {
	// Hosts are the names that clients may ask for; an empty list stands for all names.
	Hosts []v1alpha1.Hostname
	// Origin is the place where objects come from. Headers says which headers of requests to the origin and of responses
	// are changed.
	Origin  v1alpha1.Origin
	Headers v1alpha1.Headers
	// Cache says what is stored, under which key and for how long.
	Cache v1alpha1.CachePolicy
}

// Own returns the site that a CacheNode's own fields describe.
func Own(spec v1alpha1.CacheNodeSpec) Site {
	return Site{Hosts: spec.Hosts, Origin: spec.Origin, Headers: spec.Headers, Cache: spec.Cache}
}

// IsEmpty returns true for a site without an origin, which a CacheNode need not have.
func (s Site) IsEmpty() bool { return len(s.Origin.Servers) == 0 }

// OfRoutes returns what all routes of a CacheNode have in common. The routes themselves say which hosts and backends
// they have.
//
// Without a policy of its own, a route is a shared cache as RFC 9111 describes it: only what the origin marks as fresh
// is stored. How objects are stored and renewed is the CacheNode's choice.
func OfRoutes(spec v1alpha1.CacheNodeSpec) Site {
	own := spec.Cache
	policy := v1alpha1.CachePolicy{
		Key:                  []v1alpha1.KeyPart{v1alpha1.KeyScheme, v1alpha1.KeyHost, v1alpha1.KeyRequestURI},
		StaleWhileRevalidate: "30s", StaleIfError: "24h",
		Lock: own.Lock, BackgroundUpdate: own.BackgroundUpdate, Revalidate: own.Revalidate, MinUses: own.MinUses,
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
