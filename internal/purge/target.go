// Package purge defines the meaning of a purge. It decides which stored objects a purge matches, which purges a disk
// has not applied yet, when a purge ends, and what its status contains. The package is pure.
//
// The package may import the API's types, naming, layout and cachekey. For a new kind of target, add a field to Target,
// and add its patterns. If pods must report something new about a purge, add a field to Done.
package purge

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// Limits of a target.
const (
	// MaxItems is the maximum number of URLs in one purge. It is also the maximum number of prefixes, of hosts and of
	// tags.
	MaxItems = 1000
	// MaxURL is the maximum length of a URL or prefix in bytes. MaxTag is the maximum length of a tag in bytes.
	MaxURL = 2048
	MaxTag = 256
	// MaxText is the maximum total size of all items of a new CachePurge in bytes. Some older CachePurges are larger.
	MaxText = 256 << 10
)

// Target defines which objects a purge matches. The purge matches an object if at least one of the lists matches the
// object, or if Everything is true.
type Target struct {
	URLs       []string `json:"urls,omitempty"`
	Prefixes   []string `json:"prefixes,omitempty"`
	Hosts      []string `json:"hosts,omitempty"`
	Tags       []string `json:"tags,omitempty"`
	Everything bool     `json:"everything,omitempty"`
}

// Items returns the total number of URLs, prefixes, hosts and tags in a target.
func (t Target) Items() int { return len(t.URLs) + len(t.Prefixes) + len(t.Hosts) + len(t.Tags) }

// Text returns the total size of all URLs, prefixes, hosts and tags in bytes.
func (t Target) Text() (n int) {
	for _, list := range [][]string{t.URLs, t.Prefixes, t.Hosts, t.Tags} {
		for _, text := range list {
			n += len(text)
		}
	}
	return n
}

// Patterns contains a target in the form in which it is compared with stored objects.
type Patterns struct {
	// Keys are cache keys. Prefixes are beginnings of cache keys; "" is the beginning of all keys.
	Keys, Prefixes []string
	Tags           []string
}

// Patterns returns the patterns of a target for a cache policy. A URL matches all objects that are stored for the URL,
// whatever their method and scheme. This is because clients use several methods and schemes for the same object.
func (t Target) Patterns(c v1alpha1.Cache) (p Patterns, err error) {
	for _, text := range t.URLs {
		r, err := parse(text)
		if err != nil {
			return Patterns{}, fmt.Errorf("urls: %q: %w", text, err)
		}
		p.Keys = append(p.Keys, keys(c, r)...)
	}
	for _, text := range t.Prefixes {
		r, err := parsePrefix(text)
		if err != nil {
			return Patterns{}, fmt.Errorf("prefixes: %q: %w", text, err)
		}
		p.Prefixes = append(p.Prefixes, keys(withoutQuery(c), r)...)
	}
	for _, host := range t.Hosts {
		if !slices.Contains(c.Key, v1alpha1.KeyHost) {
			return Patterns{}, errors.New("hosts: spec.cache.key of the CacheNode has no Host: purge everything instead")
		}
		p.Prefixes = append(p.Prefixes, keys(withoutQuery(c), cachekey.Request{Host: host, URI: "/"})...)
	}
	if t.Everything {
		p.Prefixes = []string{""}
	}
	p.Tags = t.Tags
	return p, nil
}

// keys returns the keys of a request, for all methods and schemes that make a difference in the key.
func keys(c v1alpha1.Cache, r cachekey.Request) (list []string) {
	methods := []string{"GET", "HEAD"}
	for _, m := range c.Methods {
		methods = append(methods, string(m))
	}
	for _, r.Method = range methods {
		for _, r.Scheme = range []string{"http", "https"} {
			list = append(list, cachekey.Of(c, r).Object())
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// withoutQuery returns a policy whose keys end with the path.
func withoutQuery(c v1alpha1.Cache) v1alpha1.Cache {
	c.Key = slices.DeleteFunc(slices.Clone(c.Key), func(p v1alpha1.KeyPart) bool { return p == v1alpha1.KeyArgs })
	c.Query = nil
	return c
}

// parse returns the request for a URL.
func parse(text string) (r cachekey.Request, err error) {
	if len(text) > MaxURL {
		return r, fmt.Errorf("must have at most %d bytes", MaxURL)
	}
	for _, b := range []byte(text) {
		if b <= ' ' || b >= 0x7f {
			return r, errors.New("must be percent-encoded, as clients send it")
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return r, errors.New("must be a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return r, errors.New("must begin with http:// or https://")
	case u.Hostname() == "" || u.User != nil:
		return r, errors.New("must have a host, and no user")
	case strings.Contains(text, "#"):
		return r, errors.New("must have no fragment: clients do not send it")
	}
	return cachekey.ForURL(u, text), nil
}

// pathAlone is a policy whose keys consist only of the decoded path.
var pathAlone = v1alpha1.Cache{Key: []v1alpha1.KeyPart{v1alpha1.KeyURI}}

// parsePrefix does the same for a prefix as parse does for a URL. It does not accept a prefix that matches a whole
// host.
func parsePrefix(text string) (r cachekey.Request, err error) {
	r, err = parse(text)
	switch {
	case err != nil:
		return r, err
	case strings.Contains(text, "?"):
		return r, errors.New("must end in the path: every query string of the paths is purged")
	case cachekey.Of(pathAlone, r).Object() == "/": // true for //, /. and /x/..
		return r, errors.New("is a whole host: name it in hosts")
	}
	return r, nil
}

// Check returns an error that says what is wrong with a target; nil if nothing is wrong.
func (t Target) Check(c v1alpha1.Cache) error {
	for name, n := range map[string]int{
		"urls": len(t.URLs), "prefixes": len(t.Prefixes), "hosts": len(t.Hosts), "tags": len(t.Tags),
	} {
		if n > MaxItems {
			return fmt.Errorf("%s: must have at most %d items, has %d", name, MaxItems, n)
		}
	}
	for _, host := range t.Hosts {
		if _, err := parse("http://" + host + "/"); err != nil || strings.ContainsAny(host, ":/?@*") {
			return fmt.Errorf("hosts: %q: must be the name of a host, without scheme, port and path", host)
		}
	}
	for _, tag := range t.Tags {
		if tag == "" || len(tag) > MaxTag || strings.ContainsFunc(tag, isSeparator) {
			return fmt.Errorf("tags: %.40q: must have 1 to %d bytes, and no space, comma or control character", tag, MaxTag)
		}
	}
	if t.IsEmpty() {
		return errors.New("names nothing: set urls, prefixes, hosts, tags or everything")
	}
	_, err := t.Patterns(c)
	return err
}

// IsEmpty returns true for a target that names nothing.
func (t Target) IsEmpty() bool {
	return t.Items() == 0 && !t.Everything
}

// OrEverything returns the target, or a target for everything if it names nothing.
func (t Target) OrEverything() Target {
	t.Everything = t.Everything || t.IsEmpty()
	return t
}

// CheckForm makes the same checks as Check. It is for a caller that does not know the CacheNode, so it uses a key with
// scheme, host and URI. The operator later checks the target again with the CacheNode's own key.
func (t Target) CheckForm() error {
	key := []v1alpha1.KeyPart{v1alpha1.KeyScheme, v1alpha1.KeyHost, v1alpha1.KeyRequestURI}
	return t.Check(v1alpha1.Cache{Key: key})
}

func isSeparator(r rune) bool { return r <= ' ' || r == ',' || r == 0x7f }
