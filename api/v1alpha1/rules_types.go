package v1alpha1

import "slices"

// CacheRules defines how responses are cached: what identifies an object, and how long it is served. A CacheNode has
// such rules for its own site, and a CachePolicy has them for routes.
type CacheRules struct {
	// query selects the arguments of a URL that count. nginx removes the other arguments: they are not part of the key and
	// do not reach the origin. Unset means that all arguments count.
	// +optional
	Query *Query `json:"query,omitempty"`

	// bypass selects the requests that bypass all caches and go to the origin. Their responses are not stored.
	// +optional
	Bypass *Bypass `json:"bypass,omitempty"`

	// ttl changes how long responses are fresh, by status code. It does not apply to responses that may not be stored
	// because of their Cache-Control; see ignore. At most 8 entries. A change applies to responses that are stored after
	// the change.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.status.all(s, self.exists_one(o, s in o.status)))",message="ttl: a status code is in two entries: leave it out of one of them"
	TTL []TTL `json:"ttl,omitempty"`

	// ignore lists what is ignored of what the origin's responses say about storing them: NoStore, Private, NoCache and
	// SetCookie. The first three are the directives no-store, private and no-cache in Cache-Control. SetCookie is the
	// header Set-Cookie. What is ignored is removed: it is neither stored nor sent to clients. Responses to requests that
	// bypass the caches keep it. SetCookie needs nginx's module ngx_http_js_module, which the stock image contains and its
	// -slim variants lack; without it, responses with Set-Cookie are not stored. Use Private and SetCookie only for an
	// origin whose responses are the same for all clients.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	Ignore []Ignored `json:"ignore,omitempty"`

	// staleWhileRevalidate is the time for which an expired object is still served while a request renews it (RFC 5861).
	// A stale-while-revalidate in the origin's Cache-Control takes precedence. Objects with must-revalidate,
	// proxy-revalidate or s-maxage are never served stale. 0s to 8760h, default 30s. A change applies to responses that
	// are stored after the change.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('8760h')",message="staleWhileRevalidate: must be at most 8760h, a year"
	StaleWhileRevalidate Duration `json:"staleWhileRevalidate,omitempty"`

	// staleIfError is the time for which an expired object is served instead of an error of the origin (RFC 5861). A
	// missing answer counts as an error, and so does an answer with the status 500, 502, 503 or 504. A stale-if-error in
	// the origin's Cache-Control takes precedence. Objects with must-revalidate, proxy-revalidate or s-maxage are never
	// served stale. 0s to 8760h, default 24h. A change applies to responses that are stored after the change.
	// +optional
	// +kubebuilder:default="24h"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('8760h')",message="staleIfError: must be at most 8760h, a year"
	StaleIfError Duration `json:"staleIfError,omitempty"`
}

// TTL defines how long responses with certain status codes are fresh. The lifetime of a response is what its headers
// X-Accel-Expires, CDN-Cache-Control, Cache-Control (s-maxage, max-age) and Expires define, in this order.
//
// +kubebuilder:validation:XValidation:rule="has(self.force) != (has(self.default) || has(self.min) || has(self.max))",message="give either force, or some of default, min and max"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || !self.min.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || !self.max.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self.min) <= duration(self.max)",message="min: must not be more than max",fieldPath=".min"
type TTL struct {
	// status is the set of status codes, 1 to 16 codes from 200 to 599. A failure replaces no expired object because of
	// ttl: if an expired object is renewed, ttl does not apply to responses with a status of 400 or more, except 404 and
	// 410. It never applies to such responses to POST. nginx keeps the variants of an object (Vary) together: a failure
	// without Vary that is stored for one variant takes the place of all of them. So give failures a short lifetime.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Status []TTLStatus `json:"status"`

	// force is the lifetime of such a response, whatever its headers define. 0s means that the response is not stored.
	// +optional
	Force *Duration `json:"force,omitempty"`

	// default is the lifetime of such a response if its headers define none. 0s means that it is not stored then.
	// +optional
	Default *Duration `json:"default,omitempty"`

	// min is the shortest lifetime of such a response. A shorter lifetime that its headers define is raised to it.
	// +optional
	Min *Duration `json:"min,omitempty"`

	// max is the longest lifetime of such a response. A longer lifetime that its headers define is lowered to it.
	// +optional
	Max *Duration `json:"max,omitempty"`
}

// TTLStatus is an HTTP status code of a final response.
//
// +kubebuilder:validation:Minimum=200
// +kubebuilder:validation:Maximum=599
type TTLStatus int32

// Ignored is a directive of the origin's Cache-Control, or a header, that is ignored.
//
// +kubebuilder:validation:Enum=NoStore;Private;NoCache;SetCookie
type Ignored string

// The values of Ignored.
const (
	IgnoreNoStore Ignored = "NoStore"
	IgnorePrivate Ignored = "Private"
	IgnoreNoCache Ignored = "NoCache"
	// IgnoreSetCookie is the header Set-Cookie.
	IgnoreSetCookie Ignored = "SetCookie"
)

// Ignores returns true if the rules ignore something that a response says about storing it.
func (r CacheRules) Ignores(what Ignored) bool { return slices.Contains(r.Ignore, what) }
