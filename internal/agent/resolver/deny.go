package resolver

import (
	"net/netip"
	"slices"
	"strings"
)

// Denied are addresses that nginx is never told, whatever a name server says.
type Denied struct {
	// Always are denied for each name: the pod itself, the node's link, and what is no single host.
	Always []netip.Prefix
	// Services are denied beside these, but for the CacheNode's own pods: the API server.
	Services []netip.Prefix
	// Others are denied beside these for names that are no Service. They may have the networks of Services and pods: which
	// Services may be origins is for the operator to say, by namespace.
	Others []netip.Prefix
}

// kind is whose name a name is.
type kind int

const (
	ofOther kind = iota
	ofService
	ofPod
)

// kindOf returns whose name a name is.
func (c Config) kindOf(name string) kind {
	if pod, ok := strings.CutSuffix(name, "."+c.PodDomain); ok && !strings.Contains(pod, ".") {
		return ofPod
	}
	if strings.HasSuffix(name, ".svc."+c.ClusterDomain) {
		return ofService
	}
	return ofOther
}

// judge returns what nginx may be told of a reply. An address counts for the name that it belongs to, so a Service that
// is an alias for another name gives no rights.
func (c Config) judge(r reply) (f found) {
	for _, record := range r.records {
		if c.denies(record) {
			f.denied = append(f.denied, record.address)
		} else {
			f.addresses = append(f.addresses, record.address)
		}
	}
	switch {
	case len(f.addresses) > 0:
		f.result = Resolved
	case len(f.denied) > 0:
		f.result = Refused
	default:
		f.result = Absent
	}
	return f
}

func (c Config) denies(r record) bool {
	denied := c.Denied.Always
	switch c.kindOf(r.owner) {
	case ofPod:
	case ofService:
		denied = slices.Concat(denied, c.Denied.Services)
	case ofOther:
		denied = slices.Concat(denied, c.Denied.Services, c.Denied.Others)
	}
	return slices.ContainsFunc(denied, func(p netip.Prefix) bool { return p.Contains(r.address) })
}
