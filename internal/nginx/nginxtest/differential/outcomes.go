package differential

import (
	"net/http"
	"slices"
	"strings"
)

// liberty allows a server to ignore headers of a request, or allows an outcome that [evaluate] does not return. reason
// says why, or names the page of the documentation.
type liberty struct {
	reason string
	// ignores are the headers that the server may ignore.
	ignores []string
	// outcome returns the outcome that is allowed. If it is nil, the server may answer as if the request did not have the
	// headers in ignores.
	outcome func(of *Representation, q Request) outcome
	is      func(h *History, of *Representation, q Request) bool
}

// byRFC are the liberties that the RFCs allow.
var byRFC = []liberty{
	{
		reason:  "RFC 9110, section 14.2: a server may ignore Range; nginx does for several ranges that it must fetch",
		ignores: []string{"Range"},
		is: func(_ *History, _ *Representation, q Request) bool {
			return strings.Contains(q.Header.Get("Range"), ",")
		},
	},
	{
		reason:  "RFC 9110, section 14.2: a server may ignore Range; nginx does for a body of unknown length",
		ignores: []string{"Range"},
		is:      func(_ *History, of *Representation, _ Request) bool { return of.Framing != Length },
	},
	{
		reason:  "RFC 9110, section 14.2: a server may ignore Range; the origin did when it was asked for this response",
		ignores: []string{"Range"},
		is: func(h *History, of *Representation, q Request) bool {
			return slices.ContainsFunc(h.Exchanges, func(e Exchange) bool {
				isWhole := e.Request == q.Number && e.Of == of && e.Status == of.Status
				return isWhole && e.Header.Get("Range") == q.Header.Get("Range")
			})
		},
	},
	{
		reason:  "RFC 9110, section 14.2: a server may ignore Range; nginx does for the last bytes of an empty body",
		ignores: []string{"Range"},
		is:      func(_ *History, of *Representation, _ Request) bool { return len(of.Body) == 0 },
	},
	{
		reason:  "RFC 9110, section 14.2: a server may refuse a Range that is not valid",
		outcome: func(*Representation, Request) outcome { return refused },
		is: func(_ *History, of *Representation, q Request) bool {
			header := q.Header.Get("Range")
			_, ok := parseRange(header, len(of.Body))
			return header != "" && !ok && inRange(q.Header.Get("If-Range"), of) &&
				evaluate(of, q.Method, q.Header).status == http.StatusOK
		},
	},
	{
		reason: "RFC 9110, sections 13.1.1 and 13.1.4: a cache may ignore both; nginx does for an answer that it does " +
			"not store",
		ignores: []string{"If-Match", "If-Unmodified-Since"},
		is:      func(h *History, _ *Representation, q Request) bool { return h.asked(q) },
	},
	{
		reason: "docs/reference/headers.md: conditions reach the origin only past the caches; nginx evaluates none for an " +
			"answer that it does not store",
		ignores: []string{"If-None-Match", "If-Modified-Since"},
		is:      func(h *History, _ *Representation, q Request) bool { return h.asked(q) },
	},
}

// ofNginx are the cases in which nginx deviates from the RFCs. docs/reference/http.md describes all of them.
var ofNginx = []liberty{
	{
		reason:  "304 only if both conditions allow it",
		ignores: []string{"If-None-Match", "If-Modified-Since"},
		is: func(_ *History, _ *Representation, q Request) bool {
			return q.Header.Get("If-None-Match") != "" && q.Header.Get("If-Modified-Since") != ""
		},
	},
	{
		reason:  "If-Unmodified-Since counts for an object without Last-Modified, and beside If-Match",
		outcome: func(*Representation, Request) outcome { return outcome{status: http.StatusPreconditionFailed} },
		is: func(_ *History, of *Representation, q Request) bool {
			date := q.Header.Get("If-Unmodified-Since")
			return of.Status == http.StatusOK && isSafe(q.Method) && date != "" && !unmodified(date, of, false)
		},
	},
	{
		reason:  "If-Match with a weak tag matches the same weak tag",
		ignores: []string{"If-Match"},
		is: func(_ *History, of *Representation, q Request) bool {
			return !isStrong(of.etag()) && matches(q.Header.Get("If-Match"), of.etag(), isAny)
		},
	},
	{
		reason:  "If-Range with a weak tag matches the same weak tag",
		ignores: []string{"If-Range"},
		is: func(_ *History, of *Representation, q Request) bool {
			return !isStrong(of.etag()) && q.Header.Get("If-Range") == of.etag()
		},
	},
	{
		reason:  "Range counts for HEAD",
		outcome: func(of *Representation, q Request) outcome { return evaluate(of, http.MethodGet, q.Header) },
		is:      func(_ *History, _ *Representation, q Request) bool { return q.Method == http.MethodHead },
	},
	{
		reason:  "with slices, the origin refuses a range behind the end before nginx looks at conditions",
		outcome: func(*Representation, Request) outcome { return refused },
		is: func(h *History, _ *Representation, q Request) bool {
			return h.Way.Slices && slices.ContainsFunc(h.Exchanges, func(e Exchange) bool {
				return e.Request == q.Number && e.Status == http.StatusRequestedRangeNotSatisfiable
			})
		},
	},
}

var refused = outcome{status: http.StatusRequestedRangeNotSatisfiable}

// outcomes returns the outcomes that a request may get from a representation. The outcome of RFC 9110 comes first.
func (h *History) outcomes(of *Representation, q Request) []outcome {
	liberties := slices.Concat(byRFC, ofNginx)
	requests := []Request{q}
	for _, l := range liberties {
		for _, r := range requests {
			if l.outcome == nil && l.is(h, of, q) {
				r.Header = without(r.Header, l.ignores...)
				requests = append(requests, r)
			}
		}
	}
	var all []outcome
	add := func(o outcome) {
		if !slices.ContainsFunc(all, func(a outcome) bool { return a.status == o.status }) {
			all = append(all, o)
		}
	}
	for _, r := range requests {
		add(evaluate(of, r.Method, r.Header))
		for _, l := range liberties {
			if l.outcome != nil && l.is(h, of, r) {
				add(l.outcome(of, r))
			}
		}
	}
	return all
}
