package differential

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Check returns an error if a client may not get this response to its request. The error says why. It returns nil if
// the client may get the response.
func (h *History) Check(q Request, r Response) error {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Cachenode") || strings.HasPrefix(name, "X-Accel") {
			return fmt.Errorf("a client sees %s", name)
		}
	}
	if h.isCut(q, r) {
		return nil
	}
	if h.Way.Slices && errors.Is(r.Err, ErrCut) {
		return h.checkCut(q, r)
	}
	if r.Err != nil {
		return r.Err
	}
	if isOwnError(r) {
		if h.ownFailure(q) {
			return nil
		}
		return errors.New("the origin did answer")
	}
	candidates := h.known()
	if version := r.Header.Get(versionHeader); version != "" {
		candidates = slices.DeleteFunc(candidates, func(of *Representation) bool { return of.Version != version })
		if len(candidates) == 0 {
			return errors.New("the origin has never sent this version")
		}
	}
	why := errors.New("the origin was not asked")
	for _, of := range candidates {
		err := h.usable(of, q)
		if err != nil && isRenewing(of, r) {
			err = nil
		}
		if err == nil {
			err = h.isResponse(of, q, r)
		}
		if err == nil {
			return nil
		}
		why = fmt.Errorf("version %s: %w", of.Version, err)
	}
	return why
}

// isRenewing returns true for an expired copy if nginx says that another request is renewing it. In a generated case,
// the other request is always the previous request. nginx stores the response to that request shortly before it records
// that the renewal has ended.
func isRenewing(of *Representation, r Response) bool {
	return r.Header.Get("X-Cache") == "UPDATING" && mayEver(of.Header) == nil
}

// isResponse returns an error if a response does not fit a request for a representation.
func (h *History) isResponse(of *Representation, q Request, r Response) error {
	var statuses []string
	for _, o := range h.outcomes(of, q) {
		if o.status == r.Status {
			if err := h.headers(of, q, r, o); err != nil {
				return err
			}
			return content(of, q, r, o)
		}
		statuses = append(statuses, fmt.Sprint(o.status))
	}
	return fmt.Errorf("the status is %d, want %s", r.Status, strings.Join(statuses, " or "))
}

// checkCut checks a response in slices that ends early. The response may end early if the object has changed. But the
// bytes that the client received must be the beginning of an allowed response.
func (h *History) checkCut(q Request, r Response) error {
	versions := h.known()
	if len(versions) < 2 {
		return fmt.Errorf("%w, and the object has not changed", r.Err)
	}
	if r.Status == 0 {
		return nil // the slice that shows the length and the first slice of the range have different versions
	}
	for _, of := range versions {
		if of.Version == r.Header.Get(versionHeader) && h.begins(of, q, r) {
			return nil
		}
	}
	return fmt.Errorf("%w, and what came is no beginning of a version", r.Err)
}

// isCut returns true for a response that ends early because the origin's answer ended early. A client that speaks
// HTTP/1.0 may not notice the early end.
func (h *History) isCut(q Request, r Response) bool {
	knows := q.Protocol != HTTP10 || r.Header.Get("Content-Length") != ""
	if r.Err == nil && knows || r.Err != nil && !errors.Is(r.Err, ErrCut) {
		return false
	}
	return slices.ContainsFunc(h.Exchanges, func(e Exchange) bool {
		isOf := e.Request == q.Number && e.Of != nil && e.Of.IsCut
		return isOf && (r.Status == 0 || e.Of.Version == r.Header.Get(versionHeader) && h.begins(e.Of, q, r))
	})
}

// begins returns true if the bytes that the client received are the beginning of an allowed response. If the response
// has several ranges, its bytes are not compared.
func (h *History) begins(of *Representation, q Request, r Response) bool {
	for _, o := range h.outcomes(of, q) {
		want := of.Body
		if len(o.spans) == 1 {
			want = want[o.spans[0].first : o.spans[0].last+1]
		}
		if o.status == r.Status && (len(o.spans) > 1 || bytes.HasPrefix(want, r.Body)) {
			return true
		}
	}
	return false
}
