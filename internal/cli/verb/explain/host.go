package explain

import (
	"net/url"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// requestOf returns the URL that a person asks about. ok is false if the argument is a key.
func requestOf(argument string) (u *url.URL, ok bool) {
	u, err := url.Parse(argument)
	return u, err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// refusedHost returns the host of a URL if no server of nginx has this name, so that a request for the host gets 421.
// It returns "" if a request for the host is served, or if the argument is a key.
func refusedHost(hosts []v1alpha1.Hostname, argument string) string {
	u, ok := requestOf(argument)
	if !ok || len(hosts) == 0 {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") // as nginx reads it
	isNamed := func(name v1alpha1.Hostname) bool {
		below, isWildcard := strings.CutPrefix(string(name), "*")
		return host == string(name) || isWildcard && len(host) > len(below) && strings.HasSuffix(host, below)
	}
	if slices.ContainsFunc(hosts, isNamed) {
		return ""
	}
	return host
}
