package differential

import (
	"net/http"
	"testing"
)

// TestStorable checks which answers may be used for another request.
func TestStorable(t *testing.T) {
	t.Parallel()
	bare := func(status int) func(*Representation) {
		return func(of *Representation) { of.Status = status; of.Header.Del("Cache-Control") }
	}
	for name, tt := range map[string]struct {
		of     *Representation
		method string
		header http.Header
		want   bool
	}{
		"a lifetime":               {object(), "GET", nil, true},
		"to HEAD":                  {object(), "HEAD", nil, false},
		"to POST":                  {object(), "POST", nil, false},
		"to credentials":           {object(), "GET", headersOf("Authorization", "Basic eA=="), false},
		"to a body":                {object(), "GET", headersOf("Content-Length", "3"), false},
		"to an empty body":         {object(), "GET", headersOf("Content-Length", "0"), true},
		"no lifetime":              {object(bare(200)), "GET", nil, true},
		"no lifetime, 404":         {object(bare(404)), "GET", nil, true},
		"no lifetime, 410":         {object(bare(410)), "GET", nil, false},
		"a lifetime, 500":          {object(bare(500), with("Cache-Control", "max-age=1")), "GET", nil, true},
		"a lifetime, 304":          {object(bare(304), with("Cache-Control", "max-age=1")), "GET", nil, false},
		"no-store":                 {object(with("Cache-Control", "no-store")), "GET", nil, false},
		"private and a lifetime":   {object(with("Cache-Control", "max-age=60, private")), "GET", nil, false},
		"max-age=0":                {object(with("Cache-Control", "max-age=0")), "GET", nil, false},
		"s-maxage goes first":      {object(with("Cache-Control", "max-age=0, s-maxage=1")), "GET", nil, true},
		"s-maxage=0 goes first":    {object(with("Cache-Control", "max-age=60, s-maxage=0")), "GET", nil, false},
		"Expires in the past":      {object(bare(200), with("Expires", "0")), "GET", nil, false},
		"max-age outweighs that":   {object(with("Expires", "0")), "GET", nil, true},
		"Expires in the future":    {object(bare(410), with("Expires", "Thu, 01 Jan 2037 00:00:00 GMT")), "GET", nil, true},
		"a cookie":                 {object(with("Set-Cookie", "a=b")), "GET", nil, false},
		"a star in Vary":           {object(with("Vary", "Foo, *")), "GET", nil, false},
		"a name in Vary, as asked": {object(with("Vary", "Foo")), "GET", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Exchange{Method: tt.method, Header: tt.header, Of: tt.of, Status: tt.of.Status}.storable()
			if (err == nil) != tt.want {
				t.Errorf("storable: %t (%v)", err == nil, err)
			}
		})
	}
}
