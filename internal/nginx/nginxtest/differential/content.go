package differential

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
)

// content returns an error if a response does not have the body that the outcome requires.
func content(of *Representation, q Request, r Response, o outcome) error {
	switch {
	case q.Method == http.MethodHead, o.status == http.StatusNotModified, o.status == http.StatusNoContent:
		if len(r.Body) > 0 {
			return fmt.Errorf("%d bytes come where there is no body", len(r.Body))
		}
		return headLength(of, q, r, o)
	case o.status == http.StatusPartialContent && len(o.spans) == 1:
		return part(of, o.spans[0], r.Header.Get("Content-Range"), r.Body)
	case o.status == http.StatusPartialContent && len(o.spans) > 1:
		return parts(of, o.spans, r)
	case o.status != of.Status: // the body of a 412 or a 416 is nginx's own or the origin's
		return nil
	}
	if problem := differs(of.Body, r.Body); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// headLength checks the Content-Length of an answer to HEAD. It must be the same as in an answer to GET (RFC 9110,
// section 8.6).
func headLength(of *Representation, q Request, r Response, o outcome) error {
	length := r.Header.Get("Content-Length")
	if q.Method != http.MethodHead || length == "" || o.status != of.Status || !hasBody(of.Status) {
		return nil
	}
	if length != strconv.Itoa(len(of.Body)) {
		return fmt.Errorf("Content-Length is %s, and GET has %d bytes", length, len(of.Body))
	}
	return nil
}

func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified && status >= 200
}

// part checks one range.
func part(of *Representation, s span, contentRange string, got []byte) error {
	if want := fmt.Sprintf("bytes %d-%d/%d", s.first, s.last, len(of.Body)); contentRange != want {
		return fmt.Errorf("Content-Range is %q, want %q", contentRange, want)
	}
	if problem := differs(of.Body[s.first:s.last+1], got); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// parts checks several ranges. Each range must be in its own part of the response. The parts must be in the order in
// which the ranges were requested.
func parts(of *Representation, spans []span, r Response) error {
	_, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || parameters["boundary"] == "" {
		return fmt.Errorf("Content-Type is %q, want multipart/byteranges", r.Header.Get("Content-Type"))
	}
	reader := multipart.NewReader(bytes.NewReader(r.Body), parameters["boundary"])
	for _, s := range spans {
		p, err := reader.NextRawPart()
		if err != nil {
			return fmt.Errorf("the part for bytes %d to %d: %w", s.first, s.last, err)
		}
		got, err := io.ReadAll(p)
		if err != nil {
			return fmt.Errorf("the part for bytes %d to %d: %w", s.first, s.last, err)
		}
		if err := part(of, s, p.Header.Get("Content-Range"), got); err != nil {
			return err
		}
	}
	if _, err := reader.NextRawPart(); !errors.Is(err, io.EOF) {
		return errors.New("there are more parts than ranges")
	}
	return nil
}

// untouched are headers that belong to one response and not to the representation. So they are not compared with the
// representation's headers. The values say why.
var untouched = map[string]string{
	"Connection":        "of one connection",
	"Keep-Alive":        "of one connection",
	"Transfer-Encoding": "of one connection",
	"Content-Length":    "compared with the body",
	"Content-Range":     "compared with the body",
	"Server":            "nginx's own, or the origin's",
	"Accept-Ranges":     "nginx answers ranges of what it has stored",
	"X-Cache":           "says how a response came about",
	"X-Cache-Disk":      "says how a response came about",
	"X-Cache-Hop":       "says how a response came about",
	"Alt-Svc":           "offers HTTP/3",
	AnswerHeader:        "of one answer; a 304 renews another one",
	"Date":              "compared apart: nginx's own errors have the present time",
}

// single are headers that a response may contain only once (RFC 9110, section 5.3), or that CacheNode adds only once.
var single = []string{
	"Content-Length", "Content-Range", "Content-Type", "Date", "Etag", "Last-Modified", "Location", "Server", "X-Cache",
	"X-Cache-Disk", "X-Cache-Hop", "Accept-Ranges", "Expires", "Retry-After", versionHeader,
}

// headers returns an error if the headers of a response differ from the headers of a representation.
func (h *History) headers(of *Representation, q Request, r Response, o outcome) error {
	for _, name := range single {
		if values := r.Header.Values(name); len(values) > 1 {
			return fmt.Errorf("%s comes %d times: %q", name, len(values), values)
		}
	}
	if o.status == http.StatusPreconditionFailed || o.status == http.StatusRequestedRangeNotSatisfiable {
		return nil // such a response is an error and not a representation
	}
	ofContent := []string{"Content-Type", "Content-Encoding", "Content-Language"}
	for name := range r.Header {
		if _, ok := untouched[name]; ok || o.status != of.Status && slices.Contains(ofContent, name) {
			continue
		}
		if name == "Set-Cookie" && h.Way.Slices && h.sentCookies(q, r.Header[name]) {
			continue // docs/concepts/slices.md
		}
		if !slices.Equal(r.Header[name], of.Header[name]) {
			return fmt.Errorf("%s is %q, and the origin sends %q", name, r.Header[name], of.Header[name])
		}
	}
	for name := range of.Header {
		_, ok := untouched[name]
		_, has := r.Header[name]
		isOptional := o.status != of.Status && !slices.Contains(always, name) ||
			!hasBody(of.Status) && name == "Content-Type" // nginx omits it with HTTP/2 and HTTP/3
		if !ok && !has && !isOptional {
			return fmt.Errorf("%s is missing", name)
		}
	}
	if want := of.Header.Get("Date"); want != "" && r.Header.Get("Date") != want {
		return fmt.Errorf("the Date is %q, and the origin's was %q", r.Header.Get("Date"), want)
	}
	return nil
}

// sentCookies returns true if the origin sent these cookies in an answer that this request caused. Such an answer may
// be a slice.
func (h *History) sentCookies(q Request, cookies []string) bool {
	return slices.ContainsFunc(h.Exchanges, func(e Exchange) bool {
		return e.Request == q.Number && e.Of != nil && slices.Equal(e.Of.Header["Set-Cookie"], cookies)
	})
}

// always are the headers that a 206 or 304 must contain if a 200 contains them (RFC 9110, sections 15.3.7 and
// 15.4.5).
var always = []string{"Cache-Control", "Content-Location", "Etag", "Expires", "Vary"}
