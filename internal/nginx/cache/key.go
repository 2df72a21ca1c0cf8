package cache

import (
	"crypto/md5" //nolint:gosec // nginx names its files by it
	"encoding/hex"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// Request is the part of a request that a key can depend on.
type Request struct {
	Method, Scheme, Host string
	// URI is the path with its query string, as a client sends it.
	URI string
}

// keyParts are the parts of a key: as nginx writes them, and as they follow from a request. Two requests that differ in
// these parts never have the same key: a scheme has no colon, a host no slash, a URI begins with a slash, and arguments
// begin with a question mark and contain no space. If a decoded path contains a question mark, a space precedes the
// arguments: it is the last space in the key.
var keyParts = []struct {
	part v1alpha1.KeyPart
	text conf.Expression
	of   func(Request) string
}{
	{v1alpha1.KeyMethod, "$request_method ", func(r Request) string { return r.Method + " " }},
	{v1alpha1.KeyScheme, "$scheme://", func(r Request) string { return r.Scheme + "://" }},
	{v1alpha1.KeyHost, "$host", func(r Request) string { return strings.ToLower(r.Host) }},
	{v1alpha1.KeyRequestURI, "$request_uri", func(r Request) string { return r.URI }},
	{v1alpha1.KeyURI, "$uri", Request.normalized},
	{v1alpha1.KeyArgs, encodedMark + "$is_args$args", Request.arguments},
}

// cacheKey is the key as it stands in nginx's configuration.
func (r renderer) cacheKey() conf.Expression {
	var key conf.Expression
	for _, p := range keyParts {
		switch {
		case !r.keeps(p.part):
		case p.part == v1alpha1.KeyRequestURI && r.passedURI() != "":
			key += r.passedURI()
		default:
			key += p.text
		}
	}
	return key
}

// keyInGateway is the key as the gateway computes it for an object that it looks up on another disk. The path and the
// arguments of its own request are those that the key has; for the rest, see formerHeader.
func (r renderer) keyInGateway() conf.Expression {
	var key conf.Expression
	for _, p := range keyParts {
		if r.keeps(p.part) {
			key += p.text
		}
	}
	former := strings.NewReplacer("$request_method", formerMethod, "$scheme", formerScheme, "$host", formerHost)
	return conf.Expression(former.Replace(string(key)))
}

// Key is the key that nginx computes for a request.
func Key(c v1alpha1.CachePolicy, r Request) string {
	if path, query, ok := strings.Cut(r.URI, "?"); ok && c.Query != nil {
		r.URI = path
		if query = Counted(c.Query, query); query != "" {
			r.URI += "?" + query
		}
	}
	var key strings.Builder
	for _, p := range keyParts {
		if slices.Contains(c.Key, p.part) {
			key.WriteString(p.of(r))
		}
	}
	return key.String()
}

// File is the path at which nginx keeps the response with a key on a disk (proxy_cache_path, levels=1:2).
func File(disk, key string) string { return FileIn(layout.CacheDir(disk), key) }

// MemoryFile is the path of the copy in memory, if there is a memory tier.
func MemoryFile(key string) string { return FileIn(layout.MemoryTierCache, key) }

// FileIn is the path at which nginx keeps the response with a key in a cache (proxy_cache_path, levels=1:2).
func FileIn(folder, key string) string {
	sum := md5.Sum([]byte(key)) //nolint:gosec // see above
	hash := hex.EncodeToString(sum[:])
	return folder + "/" + hash[31:] + "/" + hash[29:31] + "/" + hash
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
