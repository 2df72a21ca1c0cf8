package v1alpha1

import (
	"slices"
	"strings"
)

// Headers are what the pods change in headers beside what a cache must.
type Headers struct {
	// request is what the origin gets. Host, the headers that say how a body is sent, what is asked for in part or on
	// conditions, and X-Forwarded-For, -Host and -Proto cannot be changed.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.set) || self.set.all(h, !(h.name.lowerAscii() in ['host','connection','keep-alive','te','trailer','upgrade','expect','content-length','transfer-encoding','range','if-range','if-match','if-none-match','if-modified-since','if-unmodified-since','x-forwarded-for','x-forwarded-host','x-forwarded-proto']))",message="set: one of these headers is CacheNode's own: leave it out",fieldPath=".set"
	// +kubebuilder:validation:XValidation:rule="!has(self.remove) || self.remove.all(h, !(h.lowerAscii() in ['host','connection','keep-alive','te','trailer','upgrade','expect','content-length','transfer-encoding','range','if-range','if-match','if-none-match','if-modified-since','if-unmodified-since','x-forwarded-for','x-forwarded-host','x-forwarded-proto']))",message="remove: one of these headers is CacheNode's own: leave it out",fieldPath=".remove"
	Request HeaderChanges `json:"request,omitzero"`

	// response is what clients get. The headers that say what a body is and how it is sent, its validators, Date, Vary,
	// Age, Location, Server, Retry-After, Alt-Svc and those of cache.statusHeaders and cache.nodeHeader cannot be changed.
	// Cache-Control and Expires can; the pods' own caches still follow the origin's.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.set) || self.set.all(h, !(h.name.lowerAscii() in ['connection','keep-alive','te','trailer','upgrade','content-length','content-type','transfer-encoding','content-encoding','content-range','accept-ranges','date','etag','last-modified','vary','age','retry-after','alt-svc','location','server','x-cache','x-cache-disk','x-cache-hop','x-cache-node','x-first-byte']))",message="set: one of these headers is CacheNode's own: leave it out",fieldPath=".set"
	// +kubebuilder:validation:XValidation:rule="!has(self.remove) || self.remove.all(h, !(h.lowerAscii() in ['connection','keep-alive','te','trailer','upgrade','content-length','content-type','transfer-encoding','content-encoding','content-range','accept-ranges','date','etag','last-modified','vary','age','retry-after','alt-svc','location','server','x-cache','x-cache-disk','x-cache-hop','x-cache-node','x-first-byte']))",message="remove: one of these headers is CacheNode's own: leave it out",fieldPath=".remove"
	Response HeaderChanges `json:"response,omitzero"`
}

// HeaderChanges are headers to set and to remove.
//
// +kubebuilder:validation:XValidation:rule="!has(self.set) || !has(self.remove) || self.set.all(h, self.remove.all(r, r.lowerAscii() != h.name.lowerAscii()))",message="remove: a header that is set replaces the one of the same name: leave it out",fieldPath=".remove"
type HeaderChanges struct {
	// set are headers with their values. Each replaces the header of the same name. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(o, o.name.lowerAscii() == h.name.lowerAscii()))",message="set: two names differ in letters' case only"
	Set []Header `json:"set,omitempty"`

	// remove are names of headers. At most 16.
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
