package differential

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Way describes the parts of nginx through which requests reach the origin.
type Way struct {
	// Memory is true if there is a memory tier. The memory tier may serve a copy for a while after the object has expired.
	Memory bool
	// Slices is true if objects are fetched in slices. A response in slices ends early if it would otherwise mix two
	// versions.
	Slices bool
}

// History contains the answers that the origin has sent for a URL so far, in their order. It also records when the
// copies expired and when they were removed.
type History struct {
	Way       Way
	Exchanges []Exchange
	// expired is the number of exchanges before the last call of Expire. purged is the number of exchanges before the last
	// call of Purge.
	expired, purged int
}

// Expire notes that all copies have expired.
func (h *History) Expire() { h.expired = len(h.Exchanges) }

// Purge notes that all copies have been removed.
func (h *History) Purge() { h.purged = len(h.Exchanges) }

// usable returns an error if a cache may not answer a request with a representation.
func (h *History) usable(of *Representation, q Request) error {
	why := errors.New("the origin has never sent it")
	for i, e := range slices.Backward(h.Exchanges) {
		if e.Of != of {
			continue
		}
		if e.Request == q.Number {
			return nil // the origin was asked for this response
		}
		if h.isShared(i, e, q) {
			return nil
		}
		if q.isPast() {
			return errors.New("the request has to reach the origin")
		}
		switch err := e.storable(); {
		case err != nil:
			why = fmt.Errorf("it was an answer for request %d and may not be stored: %w", e.Request, err)
		case !e.selects(q):
			why = errors.New("it is for other values of the headers in Vary")
		case i < h.purged:
			why = errors.New("it was removed from the caches")
		case i >= h.expired:
			return nil
		default:
			if err := h.mayBeStale(of, q); err == nil {
				return nil
			} else {
				why = fmt.Errorf("it has expired: %w", err)
			}
		}
	}
	return why
}

// mayBeStale returns an error if an expired copy may not be served.
func (h *History) mayBeStale(of *Representation, q Request) error {
	if err := mayEver(of.Header); err != nil {
		return err
	}
	if h.Way.Memory {
		return nil // docs/concepts/memory-tier.md: for up to maxExtraAge
	}
	if err := mayForError(of.Header); err != nil {
		return err
	}
	// The gateway remembers a failure for a second, so an earlier request may have caused the failure.
	for _, e := range slices.Backward(h.Exchanges) {
		if h.failed(e) {
			return nil
		}
		if e.Of == of && e.Request != q.Number && e.storable() == nil && !e.isOtherScheme(q) {
			break
		}
	}
	return errors.New("the origin has not failed")
}

// isOtherScheme returns true if an exchange was for a request with another scheme, which has objects of its own.
func (e Exchange) isOtherScheme(q Request) bool {
	scheme := "http"
	if q.Protocol == HTTP2 || q.Protocol == HTTP3 {
		scheme = "https"
	}
	of := e.Header.Get("X-Forwarded-Proto")
	return of != "" && of != scheme
}

// failed returns true if an answer is a failure and an expired copy may be served instead.
func (h *History) failed(e Exchange) bool {
	return e.Of == nil || slices.Contains([]int{500, 502, 503, 504}, e.Status)
}

// isShared returns true for an answer that the gateway keeps for a second. Requests for an expired object wait for the
// first request and get its answer. A request that arrives within that second also gets this answer.
func (h *History) isShared(i int, e Exchange, q Request) bool {
	control := directives(e.Of.Header)
	for _, name := range []string{"no-store", "no-cache", "private"} {
		if _, ok := control[name]; ok {
			return false
		}
	}
	return !q.isPast() && h.expired > 0 && i >= max(h.expired, h.purged) && isSafe(e.Method) && e.selects(q) &&
		control["max-age"] != "0" && control["s-maxage"] != "0" && e.Header.Get("Authorization") == "" &&
		e.Of.Header.Get("Set-Cookie") == ""
}

// known returns the representations of which the origin has sent at least a part. The latest one comes first.
func (h *History) known() (all []*Representation) {
	for _, e := range slices.Backward(h.Exchanges) {
		if e.Of != nil && !slices.Contains(all, e.Of) {
			all = append(all, e.Of)
		}
	}
	return all
}

// ownFailure returns true if the origin closed the connection of a request without an answer. The client may then get
// nginx's own error.
func (h *History) ownFailure(q Request) bool {
	return slices.ContainsFunc(h.Exchanges, func(e Exchange) bool { return e.Of == nil && e.Request == q.Number })
}

// asked returns true if a request caused a request to the origin.
func (h *History) asked(q Request) bool {
	return slices.ContainsFunc(h.Exchanges, func(e Exchange) bool { return e.Request == q.Number })
}

// isOwnError returns true for a response that nginx makes itself because the origin does not answer.
func isOwnError(r Response) bool {
	isGateways := r.Status == http.StatusBadGateway || r.Status == http.StatusGatewayTimeout
	return isGateways && r.Header.Get(versionHeader) == ""
}
