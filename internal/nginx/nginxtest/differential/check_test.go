package differential

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// sent returns an exchange with the answer 200 to GET.
func sent(request int, of *Representation) Exchange {
	return Exchange{Request: request, Method: http.MethodGet, Header: http.Header{}, Of: of, Status: of.Status}
}

// got returns the response with which a client gets the representation.
func got(of *Representation, change ...func(*Response)) Response {
	r := Response{Status: of.Status, Header: of.Header.Clone(), Body: of.Body}
	r.Header.Set("Content-Length", fmt.Sprint(len(of.Body)))
	for _, c := range change {
		c(&r)
	}
	return r
}

func part35(r *Response) {
	r.Status, r.Body = http.StatusPartialContent, r.Body[3:6]
	r.Header.Set("Content-Range", "bytes 3-5/10")
	r.Header.Set("Content-Length", "3")
}

// TestCheck checks which responses a client may get for its second request. In most histories, the first request was
// for an object that may be stored. want is a part of the error; "" for a response that is allowed.
func TestCheck(t *testing.T) {
	t.Parallel()
	of, private := object(), object(with("Cache-Control", "private"))
	strict, red := object(with("Cache-Control", "max-age=60, must-revalidate")), object(with("Vary", "X-Color"))
	gone := object(func(of *Representation) { of.Version, of.Status = "b", http.StatusGone }, with(versionHeader, "b"))
	failure := Failure(503)
	header := func(name, value string) func(*Response) {
		return func(r *Response) { r.Header[http.CanonicalHeaderKey(name)] = strings.Split(value, "|") }
	}
	body := func(text string) func(*Response) { return func(r *Response) { r.Body = []byte(text) } }
	status := func(status int) func(*Response) { return func(r *Response) { r.Status = status; r.Body = nil } }
	own := func(status int) Response { return Response{Status: status, Header: http.Header{}} }
	stored := func(more ...Exchange) History { return History{Exchanges: append([]Exchange{sent(1, of)}, more...)} }
	expired := func(h History) History { h.expired = 1; return h }
	purged := func(h History) History { h.purged = 1; return h }
	first := func(of *Representation) History { return History{Exchanges: []Exchange{sent(1, of)}} }
	inSlices := func(h History) History { h.Way.Slices = true; return h }
	inMemory := func(h History) History { h.Way.Memory = true; return h }
	torn := object(func(of *Representation) { of.IsCut = true })
	short := func(r *Response) { r.Header.Set("Content-Length", "9"); r.Body = nil }
	renewed := Exchange{Request: 2, Method: http.MethodGet, Of: of, Status: http.StatusNotModified}
	untagged := func(r *Response) { r.Header.Del("ETag") }
	ends := func(r *Response) { r.Err = ErrCut }
	for name, tt := range map[string]struct {
		history  History
		method   string
		header   http.Header
		response Response
		want     string
	}{
		"from the cache":       {stored(), "GET", nil, got(of), ""},
		"from the origin":      {stored(sent(2, gone)), "GET", nil, got(gone), ""},
		"the body is short":    {stored(), "GET", nil, got(of, body("01234")), "differs from byte 5"},
		"the body is another":  {stored(), "GET", nil, got(of, body("012345678X")), "differs from byte 9"},
		"no body for HEAD":     {stored(), "HEAD", nil, got(of, body("")), ""},
		"a body for HEAD":      {stored(), "HEAD", nil, got(of), "there is no body"},
		"a length for HEAD":    {stored(), "HEAD", nil, got(of, short), "Content-Length is 9"},
		"it never ends":        {stored(), "GET", nil, got(of, func(r *Response) { r.Err = ErrHangs }), "never ends"},
		"a header is missing":  {stored(), "GET", nil, got(of, untagged), "Etag is missing"},
		"a header is another":  {stored(), "GET", nil, got(of, header("ETag", `"b"`)), "Etag is"},
		"a header comes twice": {stored(), "GET", nil, got(of, header("ETag", `"a"|"a"`)), "comes 2 times"},
		"a header is new":      {stored(), "GET", nil, got(of, header("X-New", "a")), "X-New is"},
		"a header of ours":     {stored(), "GET", nil, got(of, header("X-CacheNode-Fill", "a")), "a client sees"},
		"an unknown version":   {stored(), "GET", nil, got(of, header(versionHeader, "c")), "never sent this version"},
		"another status":       {stored(), "GET", nil, got(of, status(404)), "the status is 404, want 200"},

		"a range":               {stored(), "GET", headersOf("Range", "bytes=3-5"), got(of, part35), ""},
		"another range":         {stored(), "GET", headersOf("Range", "bytes=3-6"), got(of, part35), "Content-Range is"},
		"no range":              {stored(), "GET", headersOf("Range", "bytes=3-6"), got(of), "the status is 200, want 206"},
		"no ranges of several":  {stored(), "GET", headersOf("Range", "bytes=3-6,8-8"), got(of), ""},
		"a range of POST":       {stored(sent(2, of)), "POST", headersOf("Range", "bytes=3-5"), got(of, part35), "want 200"},
		"behind the end":        {stored(), "GET", headersOf("Range", "bytes=10-"), own(416), ""},
		"not behind the end":    {stored(), "GET", headersOf("Range", "bytes=9-"), own(416), "the status is 416, want 206"},
		"not modified":          {stored(), "GET", headersOf("If-None-Match", `"a"`), got(of, status(304)), ""},
		"modified, says nginx":  {stored(), "GET", headersOf("If-None-Match", `"a"`), got(of), "want 304"},
		"no match":              {stored(), "GET", headersOf("If-Match", `"b"`), own(412), ""},
		"a match, says nginx":   {stored(), "GET", headersOf("If-Match", `"b"`), got(of), "want 412"},
		"no condition, but 412": {stored(), "GET", nil, own(412), "the status is 412, want 200"},

		"private":                 {first(private), "GET", nil, got(private), "may not be stored"},
		"credentials":             {stored(), "GET", headersOf("Authorization", "a"), got(of), "has to reach the origin"},
		"POST":                    {stored(), "POST", nil, got(of), "has to reach the origin"},
		"another color":           {first(red), "GET", headersOf("X-Color", "red"), got(red), "Vary"},
		"removed":                 {purged(stored()), "GET", nil, got(of), "was removed"},
		"expired":                 {expired(stored()), "GET", nil, got(of), "has not failed"},
		"expired and renewed":     {expired(stored(renewed)), "GET", nil, got(of), ""},
		"expired, but replaced":   {expired(stored(sent(2, gone))), "GET", nil, got(of), "has not failed"},
		"expired, but failed":     {expired(stored(sent(2, failure))), "GET", nil, got(of), ""},
		"expired, but closed":     {expired(stored(Exchange{Request: 2})), "GET", nil, got(of), ""},
		"expired, in memory":      {expired(inMemory(stored())), "GET", nil, got(of), ""},
		"must be revalidated":     {expired(first(strict)), "GET", nil, got(strict), "must-revalidate"},
		"nginx's own 502":         {stored(Exchange{Request: 2}), "GET", nil, own(502), ""},
		"a 502 without a failure": {stored(), "GET", nil, own(502), "the origin did answer"},
		"a slice is missing": {
			inSlices(stored(sent(2, gone))),
			"GET", nil,
			got(of, body("01234"), ends), "",
		},
		"the origin ends early":     {stored(sent(2, torn)), "GET", nil, got(torn, body("01234"), ends), ""},
		"half of it from the cache": {first(torn), "GET", nil, got(torn, body("01234")), "was cut short"},
		"nothing has changed, but it ends": {
			inSlices(stored()),
			"GET", nil,
			got(of, body("01234"), ends), "has not changed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.header == nil {
				tt.header = http.Header{}
			}
			err := tt.history.Check(Request{Number: 2, Method: tt.method, Header: tt.header}, tt.response)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
