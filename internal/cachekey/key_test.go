package cachekey_test

import (
	"testing"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// TestParse checks the result of Parse for keys with and without marks. A text that does not have the exact form of a
// mark must not be parsed as a mark.
func TestParse(t *testing.T) {
	t.Parallel()
	shop, err := cachekey.NewSite("shop")
	if err != nil {
		t.Fatal(err)
	}
	sliced := cachekey.NthSlice(1<<20, 0)
	for stored, want := range map[string]struct {
		marks  cachekey.Key
		object string
	}{
		"http://a/":                           {cachekey.Key{}, "http://a/"},
		"":                                    {cachekey.Key{}, ""},
		"bytes=0-1048575 http://a/":           {cachekey.Key{Slice: sliced}, "http://a/"},
		"bytes=0-1048575 ":                    {cachekey.Key{Slice: sliced}, ""},
		"generation=12 http://a/":             {cachekey.Key{Generation: 12}, "http://a/"},
		"generation=12 bytes=0-1048575 GET a": {cachekey.Key{Generation: 12, Slice: sliced}, "GET a"},
		"generation=9223372036854775807 a":    {cachekey.Key{Generation: 1<<63 - 1}, "a"},
		"site=shop http://a/":                 {cachekey.Key{Site: shop}, "site=shop http://a/"},
		"generation=1 bytes=0-1048575 site=shop /": {
			cachekey.Key{Generation: 1, Slice: sliced, Site: shop}, "site=shop /",
		},
		"bytes=9223372036853727232-9223372036854775807 /": {
			cachekey.Key{Slice: cachekey.NthSlice(1<<20, 1<<43-1)}, "/",
		},
		"bytes=9223372036854775807--9223372036854775808 /": {
			cachekey.Key{}, "bytes=9223372036854775807--9223372036854775808 /",
		},
		"generation= a":                          {cachekey.Key{}, "generation= a"},
		"generation=0 a":                         {cachekey.Key{}, "generation=0 a"},
		"generation=01 a":                        {cachekey.Key{}, "generation=01 a"},
		"generation=-1 a":                        {cachekey.Key{}, "generation=-1 a"},
		"generation=9223372036854775808 a":       {cachekey.Key{}, "generation=9223372036854775808 a"},
		"generation=1":                           {cachekey.Key{}, "generation=1"},
		"bytes=x http://a/":                      {cachekey.Key{}, "bytes=x http://a/"},
		"bytes=5 a":                              {cachekey.Key{}, "bytes=5 a"},
		"bytes=-5 a":                             {cachekey.Key{}, "bytes=-5 a"},
		"bytes=5- a":                             {cachekey.Key{}, "bytes=5- a"},
		"bytes=9-8 a":                            {cachekey.Key{}, "bytes=9-8 a"},
		"bytes=0-+9 a":                           {cachekey.Key{}, "bytes=0-+9 a"},
		"bytes=0-9,20-29 a":                      {cachekey.Key{}, "bytes=0-9,20-29 a"},
		"site= a":                                {cachekey.Key{}, "site= a"},
		"site=a/b c":                             {cachekey.Key{}, "site=a/b c"},
		"site=Shop a":                            {cachekey.Key{}, "site=Shop a"},
		"site=shop bytes=0-1048575 /":            {cachekey.Key{Site: shop}, "site=shop bytes=0-1048575 /"},
		"bytes=0-1048575 bytes=0-9 /":            {cachekey.Key{Slice: sliced}, "bytes=0-9 /"},
		"bytes=0-1048575 generation=1 /":         {cachekey.Key{Slice: sliced}, "generation=1 /"},
		" generation=1 bytes=0-1048575 site=a /": {cachekey.Key{}, " generation=1 bytes=0-1048575 site=a /"},
	} {
		k := cachekey.Parse(stored)
		marks := cachekey.Key{Generation: k.Generation, Slice: k.Slice, Site: k.Site}
		if marks != want.marks || k.Object() != want.object || k.String() != stored {
			t.Errorf("%q: %+v, object %q, written as %q; want %+v, %q", stored, k, k.Object(), k, want.marks, want.object)
		}
	}
}

func TestNewSite(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"shop": true, "0a1b2c3d4e5f.web-shop": true, "-": true,
		"": false, "Shop": false, "a b": false, "a/b": false, "a=b": false, "a\n": false, "ü": false, "a_b": false,
		"\x00": false,
	} {
		site, err := cachekey.NewSite(name)
		if (err == nil) != ok || ok && site.String() != name {
			t.Errorf("%q: %q, %v", name, site, err)
		}
	}
}
