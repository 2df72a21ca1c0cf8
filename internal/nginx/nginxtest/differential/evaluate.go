package differential

import (
	"net/http"
	"strings"
	"time"
)

// outcome is the answer that a request gets from a representation: its status and its ranges.
type outcome struct {
	status int
	// spans are the ranges of a 206.
	spans []span
}

// evaluate returns the outcome of a request for a representation. It evaluates the conditions in the order of RFC
// 9110, section 13.2.2.
func evaluate(of *Representation, method string, header http.Header) outcome {
	whole := outcome{status: of.Status}
	if of.Status != http.StatusOK || !isSafe(method) {
		return whole
	}
	switch {
	case header.Get("If-Match") != "":
		if !matches(header.Get("If-Match"), of.etag(), isStrong) {
			return outcome{status: http.StatusPreconditionFailed}
		}
	case !unmodified(header.Get("If-Unmodified-Since"), of, true):
		return outcome{status: http.StatusPreconditionFailed}
	}
	switch {
	case header.Get("If-None-Match") != "":
		if matches(header.Get("If-None-Match"), of.etag(), isAny) {
			return outcome{status: http.StatusNotModified}
		}
	case unmodified(header.Get("If-Modified-Since"), of, false):
		return outcome{status: http.StatusNotModified}
	}
	if method != http.MethodGet || header.Get("Range") == "" || !inRange(header.Get("If-Range"), of) {
		return whole
	}
	spans, ok := parseRange(header.Get("Range"), len(of.Body))
	switch {
	case !ok:
		return whole
	case len(spans) == 0:
		return outcome{status: http.StatusRequestedRangeNotSatisfiable}
	}
	return outcome{http.StatusPartialContent, spans}
}

// isAny and isStrong decide which tags can match (RFC 9110, section 8.8.3.2). In a weak comparison, all tags can
// match. In a strong comparison, only strong tags can match.
func isAny(string) bool { return true }

func isStrong(tag string) bool { return !strings.HasPrefix(tag, "W/") }

// matches returns true if a list of tags contains the tag. The list "*" matches any representation.
func matches(list, tag string, counts func(tag string) bool) bool {
	if list == "*" {
		return true
	}
	for t := range strings.SplitSeq(list, ",") {
		t = strings.TrimSpace(t)
		if tag != "" && counts(t) && counts(tag) && strings.TrimPrefix(t, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}

// unmodified returns true if a representation has not been modified since a date. If the date is not valid or the
// representation has no date, the header must be ignored. The result is then the parameter otherwise.
func unmodified(date string, of *Representation, otherwise bool) bool {
	since, ok := parseDate(date)
	modified, has := parseDate(of.Header.Get("Last-Modified"))
	if !ok || !has {
		return otherwise
	}
	return !modified.After(since)
}

// inRange returns true if If-Range allows Range to take effect (RFC 9110, section 13.1.5).
func inRange(condition string, of *Representation) bool {
	switch {
	case condition == "":
		return true
	case strings.HasSuffix(condition, `"`):
		return matches(condition, of.etag(), isStrong)
	}
	return condition == of.Header.Get("Last-Modified")
}

func parseDate(text string) (time.Time, bool) {
	t, err := http.ParseTime(text)
	return t, err == nil
}
