package edit

import (
	"reflect"
	"slices"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Fate describes whether cached objects stay usable after an edit.
type Fate string

const (
	// Cold means that no request finds any of the cached objects any more.
	Cold Fate = "Cold"
	// Partly means that requests no longer find some of the cached objects, but find the others.
	Partly Fate = "Partly"
	// Kept means that requests still find all cached objects, even if the origin would now return other objects.
	Kept Fate = "Kept"
)

// Cached describes what an edit of a field does to cached objects, besides moving keys between disks.
type Cached struct {
	// Field is the path of the field in the spec. Note describes what happens.
	Field string `json:"field"`
	Fate  Fate   `json:"fate"`
	Note  string `json:"note"`
}

const otherResponses = "nginx still serves the cached objects; purge them if the origin now sends other responses"

// CachedFields are the fields whose edits matter to cached objects. docs/concepts/changes.md also contains the notes.
var CachedFields = []Cached{
	{"cache.key", Cold, "every object gets a new key, so the cache is cold"},
	{"cache.slice", Cold, "every object gets new keys, so the cache is cold"},
	{"cache.query", Partly, "a URL gets a new key if the edit changes which of its arguments are part of the key"},
	{"routing.mode", Partly, "pods no longer find what other pods have cached for the same key"},
	{"routing.scope", Partly, "keys get other owners, which fill them again"},
	{"origin.servers", Kept, "nginx still serves the cached objects of the old origin; " +
		"purge them if the new origin has other content"},
	{"origin.scheme", Kept, otherResponses},
	{"origin.hostHeader", Kept, otherResponses},
	{"headers.request", Kept, otherResponses},
}

// matters maps the path of a field to a function. The function returns the part of the field's value that matters to
// cached objects.
var matters = map[string]func(v1alpha1.CacheNodeSpec) any{
	"cache.key": func(s v1alpha1.CacheNodeSpec) any { return slices.Sorted(slices.Values(s.Cache.Key)) },
	"cache.slice": func(s v1alpha1.CacheNodeSpec) any {
		if s.Cache.Slice == nil {
			return int64(0)
		}
		return s.Cache.Slice.Size.Value()
	},
	"cache.query": func(s v1alpha1.CacheNodeSpec) any {
		if s.Cache.Query == nil {
			return nil
		}
		q := *s.Cache.Query
		return v1alpha1.Query{Drop: slices.Sorted(slices.Values(q.Drop)), Keep: slices.Sorted(slices.Values(q.Keep))}
	},
	"routing.mode": func(s v1alpha1.CacheNodeSpec) any { return s.Routing.Mode == v1alpha1.RoutingSharded },
	"routing.scope": func(s v1alpha1.CacheNodeSpec) any {
		return s.Routing.Mode == v1alpha1.RoutingSharded && s.Routing.Scope == v1alpha1.ScopeZone
	},
	"origin.servers":    func(s v1alpha1.CacheNodeSpec) any { return hostsOf(s.Origin.Servers) },
	"origin.scheme":     func(s v1alpha1.CacheNodeSpec) any { return s.Origin.Scheme },
	"origin.hostHeader": func(s v1alpha1.CacheNodeSpec) any { return s.Origin.HostHeader },
	"headers.request":   func(s v1alpha1.CacheNodeSpec) any { return s.Headers.Request },
}

// CachedOf returns what an edit does to cached objects, in the order of [CachedFields].
func CachedOf(before, after v1alpha1.CacheNodeSpec) (list []Cached) {
	for _, c := range CachedFields {
		if of := matters[c.Field]; !reflect.DeepEqual(of(before), of(after)) {
			list = append(list, c)
		}
	}
	return list
}

// hostsOf returns the servers without their weights and roles.
func hostsOf(servers []v1alpha1.OriginServer) []v1alpha1.OriginServer {
	list := slices.Clone(servers)
	for i := range list {
		list[i].Weight, list[i].Backup = nil, false
	}
	return list
}
