// Package sites says what a CacheNode serves: the hosts, the origin and the cache policy of each site. It is the one
// place that reads them from a spec; whatever serves a site gets a [Site]. A CacheNode has one site, its own. It is
// pure.
//
// What follows from a site and from nothing else belongs here, such as [Site.LockTimeout].
//
// It may import the packages of names, shard, fleet and effective. What each site will have of its own is read here
// alone.
package sites

import (
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// Site is what is served for some hosts from one origin under one policy.
type Site struct {
	// Hosts are the names that clients may ask for; none means all.
	Hosts []v1alpha1.Hostname
	// Origin is where objects come from, and Headers what is changed on the way there and back.
	Origin  v1alpha1.Origin
	Headers v1alpha1.Headers
	// Cache says what is stored, under which key and for how long.
	Cache v1alpha1.CachePolicy
}

// Own returns the site that a CacheNode's own fields describe.
func Own(spec v1alpha1.CacheNodeSpec) Site {
	return Site{Hosts: spec.Hosts, Origin: spec.Origin, Headers: spec.Headers, Cache: spec.Cache}
}

// LongestFetch returns how long the origin may take until it has answered: one attempt that takes longest, after all
// the time in which others may begin. A body may take longer, as origin.timeouts.read is about the time between two
// reads.
func (s Site) LongestFetch() time.Duration {
	o := s.Origin
	return effective.Duration(o.Timeouts.Connect) + effective.Duration(o.Timeouts.Read) +
		effective.Duration(o.Retries.Timeout)
}

// LockTimeout returns how long a request waits for the response of another (proxy_cache_lock_timeout).
func (s Site) LockTimeout() time.Duration {
	if s.Cache.Lock.Timeout == "" {
		return s.LongestFetch()
	}
	return effective.Duration(s.Cache.Lock.Timeout)
}

// LockAge returns after which time one more request may ask the origin (proxy_cache_lock_age).
func (s Site) LockAge() time.Duration {
	if s.Cache.Lock.Age == "" {
		return s.LongestFetch()
	}
	return effective.Duration(s.Cache.Lock.Age)
}
