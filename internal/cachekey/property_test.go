package cachekey_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// random makes random requests, policies and sites, for keys of all forms.
type random struct{ *rand.Rand }

func (r random) oneOf(list ...string) string { return list[r.IntN(len(list))] }

// pieces look like parts of keys.
var pieces = []string{
	"generation=1 ", "bytes=0-1048575 ", "site=shop ", "GET ", "http://", "=", "/", "?", " ", "\n", "%20", "%2F", "%3F",
	"%0A", "..", "a",
}

// isByte returns true for every byte. isInHost returns true for the bytes that the name of a host may contain.
func isByte(byte) bool     { return true }
func isInHost(b byte) bool { return b > ' ' && b != '/' && b != 0x7f }

// text returns a random text of pieces, of single bytes and of escaped bytes. It leaves out the bytes for which the
// function can returns false.
func (r random) text(can func(byte) bool) string {
	var text []byte
	for range r.IntN(6) {
		switch r.IntN(4) {
		case 0:
			text = append(text, byte(r.IntN(256)))
		case 1:
			text = fmt.Appendf(text, "%%%02x", r.IntN(256))
		default:
			text = append(text, r.oneOf(pieces...)...)
		}
	}
	return string(slices.DeleteFunc(text, func(b byte) bool { return !can(b) }))
}

// policy returns a policy that the API allows.
func (r random) policy() (c v1alpha1.Cache) {
	paths := [][]v1alpha1.KeyPart{
		{v1alpha1.KeyRequestURI}, {v1alpha1.KeyURI}, {v1alpha1.KeyURI, v1alpha1.KeyArgs},
	}
	c.Key = append(c.Key, paths[r.IntN(len(paths))]...)
	for _, part := range []v1alpha1.KeyPart{v1alpha1.KeyMethod, v1alpha1.KeyScheme, v1alpha1.KeyHost} {
		if r.IntN(2) == 0 {
			c.Key = append(c.Key, part)
		}
	}
	if r.IntN(4) == 0 {
		c.Query = &v1alpha1.Query{Keep: []v1alpha1.NamePattern{"a*", "site"}}
	}
	return c
}

// request returns a random request that nginx accepts. The method consists of capital letters, "_" and "-". The host
// has no slash and no control character, and the path begins with a slash.
func (r random) request() cachekey.Request {
	return cachekey.Request{
		Method: r.oneOf("GET", "HEAD", "POST", "X_-Y"), Scheme: r.oneOf("http", "https"),
		Host: r.text(isInHost), URI: "/" + r.text(isByte),
	}
}

var siteNames = []string{"shop", "sho", "shop2", "shop.a", "-", "0"}

// site returns one of a few sites with similar names, or the CacheNode's own site.
func (r random) site(t *testing.T) (s cachekey.Site) {
	t.Helper()
	if i := r.IntN(len(siteNames) + 1); i > 0 {
		var err error
		if s, err = cachekey.NewSite(siteNames[i-1]); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestParseOfString checks that Parse returns the same key from the text that String returned, whatever clients send.
// Keys may contain spaces, line feeds, any other byte, and texts that look like marks.
func TestParseOfString(t *testing.T) {
	t.Parallel()
	r := random{rand.New(rand.NewPCG(1, 2))}
	var bytes [256]bool
	marked := 0
	for range 20_000 {
		k := cachekey.Of(r.policy(), r.request())
		k.Site = r.site(t)
		if object := cachekey.Parse(k.Object()); object != k {
			t.Fatalf("the object's key %q is read as %q of site %q", k.Object(), object, object.Site)
		}
		if r.IntN(2) == 0 {
			k.Generation = r.Int64()
		}
		if r.IntN(2) == 0 {
			size := 1<<20 + r.Int64N(63<<20)
			k.Slice = cachekey.NthSlice(size, r.Int64N((1<<63-1)/size))
		}
		if got := cachekey.Parse(k.String()); got != k {
			t.Fatalf("%q is read as generation %d, slice %+v, site %q, object %q; want %d, %+v, %q, %q",
				k, got.Generation, got.Slice, got.Site, got.Object(), k.Generation, k.Slice, k.Site, k.Object())
		}
		for _, b := range []byte(k.String()) {
			bytes[b] = true
		}
		if strings.Contains(k.Object(), "=1 ") || strings.Contains(k.Object(), "=shop ") {
			marked++
		}
	}
	for b, seen := range bytes {
		if !seen {
			t.Errorf("no key has the byte %#02x", b)
		}
	}
	if marked < 1000 {
		t.Errorf("%d keys have a text that looks like a mark", marked)
	}
}

// TestSitesShareNoKey checks that no key of a site is also a key of another site, or begins with the prefix of another
// site. A purge of all objects of a site selects keys by this prefix.
func TestSitesShareNoKey(t *testing.T) {
	t.Parallel()
	r := random{rand.New(rand.NewPCG(3, 4))}
	for range 20_000 {
		a, b := cachekey.Of(r.policy(), r.request()), cachekey.Of(r.policy(), r.request())
		if r.IntN(2) == 0 {
			b = a // the same request with the same policy
		}
		if a.Site, b.Site = r.site(t), r.site(t); a.Site == b.Site {
			continue
		}
		if got := cachekey.Parse(a.Object()).Site; got != a.Site {
			t.Fatalf("%q of site %q is read as one of site %q", a.Object(), a.Site, got)
		}
		if a.Object() == b.Object() || a.String() == b.String() {
			t.Fatalf("the sites %q and %q share the key %q", a.Site, b.Site, a)
		}
		if prefix := a.Site.Prefix(); prefix != "" && strings.HasPrefix(b.Object(), prefix) {
			t.Fatalf("the keys of site %q begin with %q, and so does %q of site %q", a.Site, prefix, b.Object(), b.Site)
		}
	}
}

// FuzzParse checks that String returns the text from which Parse made a key, for any text. It also checks that this
// text ends with the key of the object.
func FuzzParse(f *testing.F) {
	f.Add("generation=12 bytes=0-1048575 site=shop GET http://a/ \n?b")
	f.Add("bytes=9223372036853727232-9223372036854775807 /")
	f.Add("generation=01 site=a/b bytes=9-8 ")
	f.Fuzz(func(t *testing.T, stored string) {
		k := cachekey.Parse(stored)
		if k.String() != stored {
			t.Errorf("%q is written as %q", stored, k)
		}
		if !strings.HasSuffix(stored, k.Object()) {
			t.Errorf("%q is about %q", stored, k.Object())
		}
	})
}

// FuzzKey checks, for any request, that Parse returns the same key with the same site from the text that String
// returned.
func FuzzKey(f *testing.F) {
	f.Add("www.example.com", "/a b?c", "shop", int64(12), int64(3))
	f.Add("site=shop", "/%20", "", int64(0), int64(0))
	f.Fuzz(func(t *testing.T, host, path, name string, generation, slice int64) {
		if slices.ContainsFunc([]byte(host), func(b byte) bool { return !isInHost(b) }) {
			t.Skip("nginx refuses such a host")
		}
		site, err := cachekey.NewSite(name)
		if err != nil && name != "" {
			t.Skip("no site has such a name")
		}
		r := random{rand.New(rand.NewPCG(uint64(generation), uint64(slice)))}
		want := cachekey.Of(r.policy(), cachekey.Request{Method: "GET", Scheme: "http", Host: host, URI: "/" + path})
		want.Site, want.Generation = site, max(generation, 0)
		if slice >= 0 && slice < 1<<43 {
			want.Slice = cachekey.NthSlice(1<<20, slice)
		}
		if got := cachekey.Parse(want.String()); got != want {
			t.Errorf("%q is read as %q of site %q", want, got.Object(), got.Site)
		}
	})
}
