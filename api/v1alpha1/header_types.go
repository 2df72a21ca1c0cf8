package v1alpha1

import (
	"slices"
	"strings"
)

// Headers defines which headers the pods set or remove, in addition to the changes that every cache must make.
type Headers struct {
	// request changes the headers of requests to the origin. These headers cannot be changed: Host, X-Forwarded-For,
	// X-Forwarded-Host, X-Forwarded-Proto, Range, and the conditions, such as If-None-Match. Headers that define how the
	// request is sent, such as Connection, Expect and Content-Length, cannot be changed either.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.set) || self.set.all(h, !(h.name.lowerAscii() in ['host','connection','keep-alive','te','trailer','upgrade','expect','content-length','transfer-encoding','range','if-range','if-match','if-none-match','if-modified-since','if-unmodified-since','x-forwarded-for','x-forwarded-host','x-forwarded-proto']))",message="set: one of these headers is CacheNode's own: leave it out",fieldPath=".set"
	// +kubebuilder:validation:XValidation:rule="!has(self.remove) || self.remove.all(h, !(h.lowerAscii() in ['host','connection','keep-alive','te','trailer','upgrade','expect','content-length','transfer-encoding','range','if-range','if-match','if-none-match','if-modified-since','if-unmodified-since','x-forwarded-for','x-forwarded-host','x-forwarded-proto']))",message="remove: one of these headers is CacheNode's own: leave it out",fieldPath=".remove"
	Request HeaderChanges `json:"request,omitzero"`

	// response changes the headers of responses to clients. These headers cannot be changed: Date, Vary, Age, ETag,
	// Last-Modified, Location, Server, Retry-After, Alt-Svc, X-First-Byte, and the headers of cache.statusHeaders and
	// cache.nodeHeader. Headers that define what the body is or how it is sent, such as Content-Type and Connection,
	// cannot be changed either. Cache-Control and Expires can be changed, but the pods' own caches still follow the
	// values of the origin.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.set) || self.set.all(h, !(h.name.lowerAscii() in ['connection','keep-alive','te','trailer','upgrade','content-length','content-type','transfer-encoding','content-encoding','content-range','accept-ranges','date','etag','last-modified','vary','age','retry-after','alt-svc','location','server','x-cache','x-cache-disk','x-cache-hop','x-cache-node','x-first-byte']))",message="set: one of these headers is CacheNode's own: leave it out",fieldPath=".set"
	// +kubebuilder:validation:XValidation:rule="!has(self.remove) || self.remove.all(h, !(h.lowerAscii() in ['connection','keep-alive','te','trailer','upgrade','content-length','content-type','transfer-encoding','content-encoding','content-range','accept-ranges','date','etag','last-modified','vary','age','retry-after','alt-svc','location','server','x-cache','x-cache-disk','x-cache-hop','x-cache-node','x-first-byte']))",message="remove: one of these headers is CacheNode's own: leave it out",fieldPath=".remove"
	Response HeaderChanges `json:"response,omitzero"`
}

// HeaderChanges are headers to set and to remove.
//
// +kubebuilder:validation:XValidation:rule="!has(self.set) || !has(self.remove) || self.set.all(h, self.remove.all(r, r.lowerAscii() != h.name.lowerAscii()))",message="remove: a header that is set replaces the one of the same name: leave it out",fieldPath=".remove"
type HeaderChanges struct {
	// set lists the headers to set, with their values. Each header in the list replaces the header of the same name. At
	// most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(o, o.name.lowerAscii() == h.name.lowerAscii()))",message="set: two names differ in letters' case only"
	Set []Header `json:"set,omitempty"`

	// remove lists the names of the headers to remove. At most 16.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Remove []HeaderName `json:"remove,omitempty"`
}

// Names reports whether a header is set or removed.
func (c HeaderChanges) Names(header string) bool {
	same := func(name HeaderName) bool { return strings.EqualFold(string(name), header) }
	return slices.ContainsFunc(c.Set, func(h Header) bool { return same(h.Name) }) || slices.ContainsFunc(c.Remove, same)
}

// Header is a header with its value.
type Header struct {
	// name is the header's name. At most 64 characters.
	// +required
	Name HeaderName `json:"name"`

	// value is the header's value: printable ASCII without $, at most 1024 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[!-#%-~]([ -#%-~]*[!-#%-~])?$')",message="value: must be printable ASCII without $, and neither begin nor end with a space"
	Value string `json:"value"`
}

// HeaderName is the name of a header: letters, digits and dashes.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9-]*$')",message="must be a header's name: letters, digits and dashes"
// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().startsWith('x-cachenode-') && !self.lowerAscii().startsWith('x-accel-')",message="headers that begin with X-CacheNode- or X-Accel- are CacheNode's own and nginx's: choose another"
type HeaderName string
