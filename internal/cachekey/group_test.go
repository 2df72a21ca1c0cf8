package cachekey_test

import (
	"testing"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

func TestGroup(t *testing.T) {
	t.Parallel()
	for key, want := range map[string][3]string{
		"https://a.com/x/y/z.html":     {"https://a.com/", "https://a.com/x/", "https://a.com/x/y/"},
		"https://a.com/z.html?u=/v/w/": {"https://a.com/", "https://a.com/z.html", "https://a.com/z.html"},
		"https://a.com/":               {"https://a.com/", "https://a.com/", "https://a.com/"},
		"GET https://a.com/x/y":        {"GET https://a.com/", "GET https://a.com/x/", "GET https://a.com/x/y"},
		"a.com/x/y/z":                  {"a.com/", "a.com/x/", "a.com/x/y/"},
		"/x/y/z":                       {"/", "/x/", "/x/y/"},
		"":                             {"", "", ""},
		"a.com/http://b.com/c/d":       {"a.com/", "a.com/http:/", "a.com/http://"},
		"site=b http://a.com/x/y":      {"site=b http://a.com/", "site=b http://a.com/x/", "site=b http://a.com/x/y"},
	} {
		for depth, want := range want {
			if got := cachekey.Parse(key).Group(depth); got != want {
				t.Errorf("%q, depth %d: %q, want %q", key, depth, got, want)
			}
		}
	}
}
