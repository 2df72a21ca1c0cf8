package differential

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

// heuristic are the statuses whose responses are stored even if the origin sends no lifetime. They are the default
// statuses of cache.valid.
var heuristic = []int{http.StatusOK, http.StatusPartialContent, http.StatusMovedPermanently, http.StatusNotFound}

// storable returns an error if a cache may not use the answer of an exchange for another request. The rules are in RFC
// 9111, section 3, and in docs/reference/http.md. The rules in docs/reference/http.md are stricter.
func (e Exchange) storable() error {
	if e.Method != http.MethodGet {
		return errors.New("the answer is to " + e.Method)
	}
	if e.Header.Get("Authorization") != "" || strings.Trim(e.Header.Get("Content-Length"), "0") != "" {
		return errors.New("the answer is to credentials or a body")
	}
	if e.Of.IsCut {
		return errors.New("it was cut short")
	}
	// A 206 or 304 that nobody requested must not become part of a stored response.
	if e.Of.Status == http.StatusPartialContent || e.Of.Status == http.StatusNotModified {
		return errors.New("the status is " + http.StatusText(e.Of.Status))
	}
	h := e.Of.Header
	control := directives(h)
	for _, name := range []string{"no-store", "no-cache", "private"} {
		if _, ok := control[name]; ok {
			return errors.New(name + " is in Cache-Control")
		}
	}
	switch {
	case h.Get("Set-Cookie") != "":
		return errors.New("it has Set-Cookie")
	case slices.Contains(names(h, "Vary"), "*"):
		return errors.New("a star is in Vary")
	}
	return lifetime(e.Of.Status, h, control)
}

// lifetime returns an error if a response is not fresh when it arrives.
func lifetime(status int, h http.Header, control map[string]string) error {
	for _, name := range []string{"s-maxage", "max-age"} {
		if seconds, ok := control[name]; ok {
			if strings.Trim(seconds, "0") == "" {
				return errors.New(name + " is 0")
			}
			return nil
		}
	}
	if values := h.Values("Expires"); len(values) > 0 {
		if date, ok := parseDate(values[0]); !ok || date.Year() < 2030 {
			return errors.New("the time in Expires is past")
		}
		return nil
	}
	if !slices.Contains(heuristic, status) {
		return errors.New("its status needs a lifetime, and it has none")
	}
	return nil
}

// mayEver returns an error if a stored response may never be served after it has expired (RFC 9111, section 4.2.4).
func mayEver(h http.Header) error {
	control := directives(h)
	for _, name := range []string{"must-revalidate", "proxy-revalidate", "s-maxage"} {
		if _, ok := control[name]; ok {
			return errors.New(name + " is in Cache-Control")
		}
	}
	return nil
}

// mayForError returns an error if an expired response may not be served while the origin fails (RFC 5861).
func mayForError(h http.Header) error {
	if seconds, ok := directives(h)["stale-if-error"]; ok && strings.Trim(seconds, "0") == "" {
		return errors.New("stale-if-error is 0")
	}
	return nil
}

// directives returns the directives of Cache-Control with their arguments; the argument is "" if a directive has none.
func directives(h http.Header) map[string]string {
	found := map[string]string{}
	for _, name := range names(h, "Cache-Control") {
		name, argument, _ := strings.Cut(strings.ToLower(name), "=")
		found[name] = strings.Trim(argument, `"`)
	}
	return found
}

// names returns the members of a header whose value is a list.
func names(h http.Header, header string) (members []string) {
	for _, value := range h.Values(header) {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name != "" {
				members = append(members, name)
			}
		}
	}
	return members
}

// selects returns true if Vary allows the answer to be used for another request (RFC 9111, section 4.1). This is so if
// both requests have the same values of the headers that Vary names.
func (e Exchange) selects(q Request) bool {
	for _, name := range names(e.Of.Header, "Vary") {
		if e.Header.Get(name) != q.Header.Get(name) {
			return false
		}
	}
	return true
}
