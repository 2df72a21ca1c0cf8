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
	Method, Scheme string
	// Host is the value of the header Host, with or without a port.
	Host string
	// Port is a colon and the port of a Gateway's listener, if this is not the default port of the scheme. It is a part of
	// the keys of routes. It is "" for the CacheNode's own site, whose keys have no port.
	Port string
	// URI is the path with its query string, as a client sends it.
	URI string
}

// ForURL returns the request that a client sends for a URL, without the method. text is the URL exactly as it was
// written, because a cache compares paths and queries byte by byte. The result has no fragment, because clients do
// not send it.
func ForURL(u *url.URL, text string) Request {
	text, _, _ = strings.Cut(text, "#")
	_, rest, _ := strings.Cut(text, "://")
	uri := ""
	if at := strings.IndexAny(rest, "/?"); at >= 0 {
		uri = rest[at:]
	}
	if !strings.HasPrefix(uri, "/") {
		uri = "/" + uri
	}
	return Request{Scheme: u.Scheme, Host: u.Host, URI: uri}
}

// URIMark is a variable of nginx's configuration: a space if the decoded path contains a question mark, "" otherwise.
const URIMark = "$uri_mark"

// Part is a part of a key. It defines how nginx computes the part, and how this package computes the part from a
// request.
type Part struct {
	Name v1alpha1.KeyPart
	// Nginx is the expression for the part in nginx's configuration.
	Nginx string
	of    func(Request) string
}

// parts contains all parts, in their order in a key. If two requests differ in a part that a policy uses, this policy
// never gives them the same key. A scheme contains no colon, and a host contains no slash. A URI begins with a slash,
// and arguments begin with a question mark and contain no space. If a decoded path contains a question mark, a space
// precedes the arguments. This space is the last space in the key.
var parts = []Part{
	{v1alpha1.KeyMethod, "$request_method ", func(r Request) string { return r.Method + " " }},
	{v1alpha1.KeyScheme, "$scheme://", func(r Request) string { return r.Scheme + "://" }},
	{v1alpha1.KeyHost, "$host", Request.host},
	{v1alpha1.KeyRequestURI, "$request_uri", func(r Request) string { return r.URI }},
	{v1alpha1.KeyURI, "$uri", Request.normalized},
	{v1alpha1.KeyArgs, URIMark + "$is_args$args", Request.arguments},
}

// Parts returns the parts of which a policy makes its keys, in their order in a key.
func Parts(c v1alpha1.Cache) (list []Part) {
	for _, p := range parts {
		if slices.Contains(c.Key, p.Name) {
			list = append(list, p)
		}
	}
	return list
}

// Of returns the key that nginx computes for a request to the CacheNode's own site.
func Of(c v1alpha1.Cache, r Request) Key {
	if c.Query != nil {
		path, _, _ := strings.Cut(r.URI, "?")
		r.URI = path + withMark(Counted(c.Query, r.query()))
	}
	var text strings.Builder
	for _, p := range Parts(c) {
		text.WriteString(p.of(r))
	}
	return Key{text: text.String()}
}

// withMark returns the value of $is_args$args for a query.
func withMark(query string) string {
	if query == "" {
		return ""
	}
	return "?" + query
}

// host returns the value of $host, and the port that keys of routes contain. $host is the host in lower case, without a
// port and without a dot at the end. nginx converts only ASCII letters to lower case.
func (r Request) host() string {
	host, _, _ := strings.Cut(r.Host, ":")
	if end := strings.IndexByte(r.Host, ']'); strings.HasPrefix(r.Host, "[") && end > 0 { // an IPv6 address
		host = r.Host[:end+1]
	}
	lower := []byte(strings.TrimSuffix(host, "."))
	for i, b := range lower {
		if b >= 'A' && b <= 'Z' {
			lower[i] = b - 'A' + 'a'
		}
	}
	return string(lower) + r.Port
}

// sent returns the path as the client sent it, and the query. The text after "#" belongs to neither of them.
func (r Request) sent() (path, query string) {
	uri, _, _ := strings.Cut(r.URI, "#")
	path, query, _ = strings.Cut(uri, "?")
	return path, query
}

// query returns the value of $args.
func (r Request) query() string {
	_, query := r.sent()
	return query
}

var slashes = regexp.MustCompile(`/+`)

// normalized returns the value of $uri: the decoded path, without "." and "..", and with one slash in place of
// several.
func (r Request) normalized() string {
	raw, _ := r.sent()
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

// arguments returns the value of $is_args$args, after a space if the decoded path contains a question mark.
func (r Request) arguments() string {
	mark := ""
	if strings.Contains(r.normalized(), "?") {
		mark = " "
	}
	return mark + withMark(r.query())
}
