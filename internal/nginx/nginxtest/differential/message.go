// Package differential decides which responses a client may get from a cache. It applies RFC 9110 and RFC 9111 to the
// client's request and to all earlier answers of the origin for the same URL. The package also generates requests and
// origins, which are always the same for the same seed. So a test can check whether the responses of the real nginx are
// allowed.
//
// The package imports no package of the project except test/await, because it must judge the product independently. Put
// a rule of the RFCs into check.go, and a new kind of request or origin into generate.go.
package differential

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

const (
	// requestHeader contains the number of a client's request. The cache passes this header on to the origin.
	requestHeader = "X-Asked"
	// versionHeader is a response header with the version of the representation.
	versionHeader = "X-Version"
	// AnswerHeader contains the number of the origin's answer for a URL, so that a test can distinguish a stored answer
	// from an earlier one.
	AnswerHeader = "X-Answer"
)

// Request is a request of a client.
type Request struct {
	// Number is the position of the request among all requests for its URL, counted from 1.
	Number int
	Method string
	Header http.Header
	// Body is sent with a Content-Length, if it is not empty.
	Body string
	// Pod is the pod that gets the request.
	Pod int
	// Protocol is the protocol that the client speaks.
	Protocol Protocol
}

// Protocol is a version of HTTP.
type Protocol string

// The protocols. With HTTP10, a client closes the connection after one response. With the other protocols, it keeps the
// connection open.
const (
	HTTP10 Protocol = "HTTP/1.0"
	HTTP11 Protocol = "HTTP/1.1"
	HTTP2  Protocol = "HTTP/2"
	HTTP3  Protocol = "HTTP/3"
)

// isPast returns true for a request that no cache may answer: it has credentials or a body, or is neither GET nor HEAD.
func (q Request) isPast() bool {
	return !isSafe(q.Method) || q.Header.Get("Authorization") != "" || q.Body != ""
}

func isSafe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// String returns the request in one line.
func (q Request) String() string {
	return fmt.Sprintf("%d. %s over %s to pod %d%s%s",
		q.Number, q.Method, q.Protocol, q.Pod, lines(q.Header), body(q.Body))
}

// Framing defines how an origin shows where the body of a response ends.
type Framing string

// The framings.
const (
	Length  Framing = "Content-Length"
	Chunked Framing = "chunked"
	Close   Framing = "until the connection closes"
)

// Representation is the content of a URL for all requests that have the same values of the headers that Vary names. It
// is valid until the origin changes the content.
type Representation struct {
	// Version distinguishes the representation from all other representations of the URL.
	Version string
	Status  int
	Header  http.Header
	Body    []byte
	Framing Framing
	// Ranges is true if the origin itself supports Range.
	Ranges bool
	// IsCut is true if the connection closes in the middle of the body. Such an answer is not complete, and no cache may
	// treat it as complete (RFC 9111, section 3.3).
	IsCut bool
}

// etag returns the entity tag, or "".
func (r *Representation) etag() string { return r.Header.Get("ETag") }

// String returns the representation in one line.
func (r *Representation) String() string {
	return fmt.Sprintf("version %s: %d (%s, cut %t, ranges %t)%s",
		r.Version, r.Status, r.Framing, r.IsCut, r.Ranges, lines(r.Header))
}

// Exchange is a request that the origin got, together with the answer.
type Exchange struct {
	// Request is the number of the client's request that caused the exchange.
	Request int
	Method  string
	Header  http.Header
	// Of is the representation in the answer. Status is the status of the answer. If the origin closed the connection
	// instead, Of is nil and Status is 0.
	Of     *Representation
	Status int
	// Answer is the number of the answer among all answers of the URL, counted from 0.
	Answer int
}

// String returns the exchange in one line.
func (e Exchange) String() string {
	answer := "the connection closed"
	if e.Of != nil {
		answer = fmt.Sprintf("%d of version %s", e.Status, e.Of.Version)
	}
	return fmt.Sprintf("   for %d, the origin answers %s with%s: %s", e.Request, e.Method, lines(e.Header), answer)
}

// Response is a response that a client got.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Err describes what is wrong with the message itself: the response ends early or never, or the connection cannot be
	// used for another request.
	Err error
}

// String returns the response in one line.
func (r Response) String() string {
	problem := ""
	if r.Err != nil {
		problem = fmt.Sprintf(" (%v)", r.Err)
	}
	return fmt.Sprintf("   the client gets %d with %d bytes%s%s", r.Status, len(r.Body), lines(r.Header), problem)
}

// lines returns headers sorted in one line. It leaves out headers that do not help to explain a failure.
func lines(header http.Header) string {
	var b strings.Builder
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name == "X-Forwarded-For" || name == "X-Forwarded-Host" || name == "X-Forwarded-Proto" || name == "Host" {
			continue
		}
		for _, value := range header[name] {
			fmt.Fprintf(&b, " [%s: %s]", name, value)
		}
	}
	return b.String()
}

func body(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" and %d bytes", len(text))
}

// without returns a copy of the headers that does not contain the named headers.
func without(header http.Header, names ...string) http.Header {
	header = header.Clone()
	for _, name := range names {
		header.Del(name)
	}
	return header
}

// differs returns a text with the position of the first byte in which two bodies differ; "" if the bodies are equal.
func differs(want, got []byte) string {
	if bytes.Equal(want, got) {
		return ""
	}
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	return fmt.Sprintf("the body has %d bytes, want %d, and differs from byte %d on", len(got), len(want), at)
}
