package cachekey

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// Request is the part of a request that a key can depend on.
type Request struct {
	Method, Scheme, Host string
	// URI is the path with its query string, as a client sends it.
	URI string
}

// URIMark is a variable of nginx's configuration: a space if the decoded path contains a question mark, "" otherwise.
const URIMark = "$uri_mark"

// Part is a part of a key: as nginx writes it, and as it follows from a request.
type Part struct {
	Name v1alpha1.KeyPart
	// Nginx is the part in nginx's configuration.
	Nginx string
	of    func(Request) string
}

// parts are all parts, in their order in a key. Two requests that differ in these parts never have the same key: a
// scheme has no colon, a host no slash, a URI begins with a slash, and arguments begin with a question mark and contain
// no space. If a decoded path contains a question mark, a space precedes the arguments: it is the last space in the
// key.
var parts = []Part{
	{v1alpha1.KeyMethod, "$request_method ", func(r Request) string { return r.Method + " " }},
	{v1alpha1.KeyScheme, "$scheme://", func(r Request) string { return r.Scheme + "://" }},
	{v1alpha1.KeyHost, "$host", func(r Request) string { return strings.ToLower(r.Host) }},
	{v1alpha1.KeyRequestURI, "$request_uri", func(r Request) string { return r.URI }},
	{v1alpha1.KeyURI, "$uri", Request.normalized},
	{v1alpha1.KeyArgs, URIMark + "$is_args$args", Request.arguments},
}

// Parts returns the parts of the keys of a policy, in their order in a key.
func Parts(c v1alpha1.CachePolicy) (list []Part) {
	for _, p := range parts {
		if slices.Contains(c.Key, p.Name) {
			list = append(list, p)
		}
	}
	return list
}

// Of returns the key that nginx computes for a request to the CacheNode's own site.
func Of(c v1alpha1.CachePolicy, r Request) Key {
	if path, query, ok := strings.Cut(r.URI, "?"); ok && c.Query != nil {
		r.URI = path
		if query = Counted(c.Query, query); query != "" {
			r.URI += "?" + query
		}
	}
	var text strings.Builder
	for _, p := range Parts(c) {
		text.WriteString(p.of(r))
	}
	return Key{text: text.String()}
}

var slashes = regexp.MustCompile(`/+`)

// normalized is $uri: decoded, without "." and "..", and with one slash in place of several.
func (r Request) normalized() string {
	raw, _, _ := strings.Cut(r.URI, "?")
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		return raw // nginx answers such a request with 400
	}
	decoded = slashes.ReplaceAllString(decoded, "/")
	clean := path.Clean(decoded)
	if clean != "/" &&
		(strings.HasSuffix(decoded, "/") || strings.HasSuffix(decoded, "/.") || strings.HasSuffix(decoded, "/..")) {
		clean += "/"
	}
	return clean
}

// arguments are $is_args$args, after a space if the path contains a question mark.
func (r Request) arguments() string {
	mark := ""
	if strings.Contains(r.normalized(), "?") {
		mark = " "
	}
	_, query, _ := strings.Cut(r.URI, "?")
	if query == "" {
		return mark
	}
	return mark + "?" + query
}
