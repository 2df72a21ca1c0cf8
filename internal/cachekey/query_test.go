package cachekey_test

import (
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

func TestCounted(t *testing.T) {
	drop := &v1alpha1.Query{Drop: []v1alpha1.NamePattern{"fbclid", "utm_*", "a.b[]"}}
	keep := &v1alpha1.Query{Keep: []v1alpha1.NamePattern{"id", "page*"}}
	many := strings.Repeat("a=1&fbclid=2&", 9) + "a=1"
	for name, tt := range map[string]struct {
		query    *v1alpha1.Query
		from, to string
	}{
		"no rule":              {nil, "b=1&a=2&", "b=1&a=2&"},
		"nothing":              {drop, "", ""},
		"none to drop":         {drop, "b=1&a=2", "b=1&a=2"},
		"one, first":           {drop, "utm_source=x&a=1", "a=1"},
		"one, last":            {drop, "a=1&utm_source=x", "a=1"},
		"one in the middle":    {drop, "a=1&fbclid=x&b=2", "a=1&b=2"},
		"neighbours":           {drop, "a=1&fbclid=x&utm_a&utm_b=&b=2", "a=1&b=2"},
		"apart":                {drop, "utm_a=1&a=1&fbclid=x&b=2&utm_b=1", "a=1&b=2"},
		"only these":           {drop, "utm_a=1&fbclid=x", ""},
		"a longer name":        {drop, "fbclid2=1&xutm_=2", "fbclid2=1&xutm_=2"},
		"a name in a value":    {drop, "a=fbclid&b=&utm", "a=fbclid&b=&utm"},
		"no expression":        {drop, "axb[]=1&a.b[]=2&a.b=3", "axb[]=1&a.b=3"},
		"letters' case counts": {drop, "FBCLID=1", "FBCLID=1"},
		"&s at the end":        {drop, "a=1&&", "a=1"},
		"keep":                 {keep, "x=1&id=2&y&page_size=3&id=4&z=", "id=2&page_size=3&id=4"},
		"keep none":            {keep, "x=1&y", ""},
		"keep, empty ones":     {keep, "&&id=1&&", "id=1"},
		"more than eight":      {drop, many, strings.Repeat("a=1&", 8) + "a=1&fbclid=2&a=1"},
	} {
		if got := cachekey.Counted(tt.query, tt.from); got != tt.to {
			t.Errorf("%s: %q becomes %q, want %q", name, tt.from, got, tt.to)
		}
	}
}
