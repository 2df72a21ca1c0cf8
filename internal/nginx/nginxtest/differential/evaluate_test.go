package differential

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRange(t *testing.T) {
	t.Parallel()
	type result struct {
		Spans [][2]int
		OK    bool
	}
	for header, want := range map[string]result{
		"bytes=0-0":                   {[][2]int{{0, 0}}, true},
		"bytes=5-":                    {[][2]int{{5, 9}}, true},
		"bytes=5-99":                  {[][2]int{{5, 9}}, true},
		"bytes=0-9223372036854775808": {[][2]int{{0, 9}}, true},
		"bytes=-3":                    {[][2]int{{7, 9}}, true},
		"bytes=-30":                   {[][2]int{{0, 9}}, true},
		"bytes=-0":                    {nil, true},
		"bytes=10-":                   {nil, true},
		"bytes=10-20":                 {nil, true},
		"bytes=0-1, 8-20,-1":          {[][2]int{{0, 1}, {8, 9}, {9, 9}}, true},
		"bytes=0-0,10-20":             {[][2]int{{0, 0}}, true},
		"bytes=5-3":                   {nil, false},
		"bytes=a-b":                   {nil, false},
		"bytes=":                      {nil, false},
		"bytes=-":                     {nil, false},
		"chunks=1-2":                  {nil, false},
	} {
		var got result
		spans, ok := parseRange(header, 10)
		got.OK = ok
		for _, s := range spans {
			got.Spans = append(got.Spans, [2]int{s.first, s.last})
		}
		if !ok {
			got.Spans = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", header, diff)
		}
	}
}

// object returns a representation of ten bytes with a strong tag and a date.
func object(change ...func(*Representation)) *Representation {
	of := &Representation{
		Version: "a", Status: http.StatusOK, Framing: Length, Body: []byte("0123456789"),
		Header: http.Header{"Etag": {`"a"`}, "Last-Modified": {modified(1)}, "Cache-Control": {"max-age=60"}},
	}
	of.Header.Set(versionHeader, "a")
	for _, c := range change {
		c(of)
	}
	return of
}

func with(name, value string) func(*Representation) {
	return func(of *Representation) { of.Header[http.CanonicalHeaderKey(name)] = []string{value} }
}

// headersOf returns headers. Its arguments are a name and a value for each header.
func headersOf(pairs ...string) http.Header {
	header := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		header.Add(pairs[i], pairs[i+1])
	}
	return header
}

// TestEvaluate checks the order of conditions, and how tags and dates are compared (RFC 9110, section 13).
func TestEvaluate(t *testing.T) {
	t.Parallel()
	weak := object(with("ETag", `W/"a"`))
	undated := object(func(of *Representation) { of.Header.Del("Last-Modified") })
	missing := object(func(of *Representation) { of.Status = http.StatusNotFound })
	for name, tt := range map[string]struct {
		of     *Representation
		method string
		header http.Header
		want   int
	}{
		"nothing asked":      {object(), "GET", nil, 200},
		"the same tag":       {object(), "GET", headersOf("If-None-Match", `"b", "a"`), 304},
		"the same tag, weak": {object(), "GET", headersOf("If-None-Match", `W/"a"`), 304},
		"another tag":        {object(), "GET", headersOf("If-None-Match", `"b"`), 200},
		"any tag":            {object(), "HEAD", headersOf("If-None-Match", "*"), 304},
		"a tag outweighs a date": {
			object(), "GET", headersOf("If-None-Match", `"b"`, "If-Modified-Since", modified(2)), 200,
		},
		"not modified":            {object(), "GET", headersOf("If-Modified-Since", modified(1)), 304},
		"modified":                {object(), "GET", headersOf("If-Modified-Since", modified(0)), 200},
		"no date":                 {undated, "GET", headersOf("If-Modified-Since", modified(2)), 200},
		"must match":              {object(), "GET", headersOf("If-Match", `"a"`), 200},
		"must match, another":     {object(), "GET", headersOf("If-Match", `"b"`), 412},
		"must match, weak":        {weak, "GET", headersOf("If-Match", `W/"a"`), 412},
		"must be unmodified":      {object(), "GET", headersOf("If-Unmodified-Since", modified(0)), 412},
		"must match goes first":   {object(), "GET", headersOf("If-Match", `"a"`, "If-Unmodified-Since", modified(0)), 200},
		"must be, but no date":    {undated, "GET", headersOf("If-Unmodified-Since", modified(0)), 200},
		"412 before 304":          {object(), "GET", headersOf("If-Match", `"b"`, "If-None-Match", `"a"`), 412},
		"304 before 206":          {object(), "GET", headersOf("If-None-Match", `"a"`, "Range", "bytes=0-1"), 304},
		"a range":                 {object(), "GET", headersOf("Range", "bytes=0-1"), 206},
		"a range of HEAD":         {object(), "HEAD", headersOf("Range", "bytes=0-1"), 200},
		"a range of POST":         {object(), "POST", headersOf("Range", "bytes=0-1"), 200},
		"behind the end":          {object(), "GET", headersOf("Range", "bytes=10-"), 416},
		"a range that is none":    {object(), "GET", headersOf("Range", "bytes=5-3"), 200},
		"the range of that tag":   {object(), "GET", headersOf("Range", "bytes=0-1", "If-Range", `"a"`), 206},
		"the range of another":    {object(), "GET", headersOf("Range", "bytes=0-1", "If-Range", `"b"`), 200},
		"the range of a weak tag": {weak, "GET", headersOf("Range", "bytes=0-1", "If-Range", `W/"a"`), 200},
		"the range of that date":  {object(), "GET", headersOf("Range", "bytes=0-1", "If-Range", modified(1)), 206},
		"the range of a later":    {object(), "GET", headersOf("Range", "bytes=0-1", "If-Range", modified(2)), 200},
		"another status":          {missing, "GET", headersOf("If-None-Match", `"a"`, "Range", "bytes=0-1"), 404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := evaluate(tt.of, tt.method, tt.header).status; got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}
