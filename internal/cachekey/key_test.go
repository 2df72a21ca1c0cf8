package cachekey_test

import (
	"testing"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

func TestObjectKey(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]struct {
		key        string
		generation int64
	}{
		"http://a/":                           {"http://a/", 0},
		"bytes=0-1048575 http://a/":           {"http://a/", 0},
		"bytes=x http://a/":                   {"bytes=x http://a/", 0},
		"":                                    {"", 0},
		"generation=12 http://a/":             {"http://a/", 12},
		"generation=12 bytes=0-1048575 GET a": {"GET a", 12},
		"generation= http://a/":               {"generation= http://a/", 0},
		"generation=1234567890123456789 a":    {"generation=1234567890123456789 a", 0},
	} {
		if key, generation := cachekey.ObjectKey(stored); key != want.key || generation != want.generation {
			t.Errorf("%q is about %q of generation %d, want %+v", stored, key, generation, want)
		}
	}
}
