package cachekey_test

import (
	"testing"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

func TestGroupOf(t *testing.T) {
	t.Parallel()
	for key, want := range map[string][3]string{
		"https://a.com/x/y/z.html":     {"https://a.com/", "https://a.com/x/", "https://a.com/x/y/"},
		"https://a.com/z.html?u=/v/w/": {"https://a.com/", "https://a.com/z.html", "https://a.com/z.html"},
		"https://a.com/":               {"https://a.com/", "https://a.com/", "https://a.com/"},
		"GET https://a.com/x/y":        {"GET https://a.com/", "GET https://a.com/x/", "GET https://a.com/x/y"},
		"a.com/x/y/z":                  {"a.com/", "a.com/x/", "a.com/x/y/"},
		"/x/y/z":                       {"/", "/x/", "/x/y/"},
		"":                             {"", "", ""},
	} {
		for depth, want := range want {
			if got := cachekey.GroupOf(key, depth); got != want {
				t.Errorf("%q, depth %d: %q, want %q", key, depth, got, want)
			}
		}
	}
}
