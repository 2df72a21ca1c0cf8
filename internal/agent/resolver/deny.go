package resolver

import (
	"net/netip"
	"slices"
	"strings"
)

// Denied defines which addresses the resolver never gives to nginx, whatever a name server answers.
type Denied struct {
	// Always are the addresses that are denied for every name. These are the addresses of the pod and of the API server,
	// link-local addresses, and addresses that do not belong to a single host.
	Always []netip.Prefix
	// Others are the addresses that are also denied for names outside the cluster. They may include the networks of
	// Services and pods.
	Others []netip.Prefix
	// Namespaces are the namespaces whose Services may be origins; "*" allows all. The operator checks the names in a
	// spec too, but it may have accepted the spec before today's policy.
	Namespaces []string
}

// judge returns the answer for nginx: the addresses of a reply that nginx may get, and the addresses that are denied.
func (c Config) judge(r reply) (f found) {
	denied, allowed := c.denied(r.chain)
	for _, address := range r.addresses {
		if !allowed || isIn(denied, address) {
			f.denied = append(f.denied, address)
		} else {
			f.addresses = append(f.addresses, address)
		}
	}
	switch {
	case len(f.addresses) > 0:
		f.result = Resolved
	case len(f.denied) > 0:
		f.result = OnlyDenied
	default:
		f.result = Absent
	}
	return f
}

// denied returns the addresses that are denied for the last name in a chain of aliases. The chain begins with the
// name for which nginx asked. allowed is false if the last name must not be an origin.
//
// Only the cluster's own name server decides what a name in the cluster stands for. So a chain that leaves the
// cluster has no more rights than a name outside the cluster, wherever the chain ends.
func (c Config) denied(chain []string) (denied []netip.Prefix, allowed bool) {
	first, last := chain[0], chain[len(chain)-1]
	switch {
	case c.isPod(first):
		return c.Denied.Always, len(chain) == 1
	case c.Backends[first] && len(chain) == 1:
		return c.Denied.Always, true
	case c.isInside(last) && !c.mayBeOrigin(last):
		return nil, false
	case slices.ContainsFunc(chain, func(name string) bool { return !c.isInside(name) }):
		return slices.Concat(c.Denied.Always, c.Denied.Others), true
	}
	return c.Denied.Always, true
}

// isPod returns true for the name of a pod of the CacheNode.
func (c Config) isPod(name string) bool {
	pod, ok := strings.CutSuffix(name, "."+c.PodDomain)
	return ok && !strings.Contains(pod, ".")
}

// isInside returns true for a name in the cluster's domain.
func (c Config) isInside(name string) bool { return strings.HasSuffix(name, "."+c.ClusterDomain) }

// mayBeOrigin returns true for the name of a Service that may be an origin, and for the name of a pod of such a
// Service.
func (c Config) mayBeOrigin(name string) bool {
	labels := strings.Split(strings.TrimSuffix(name, "."+c.ClusterDomain), ".")
	n := len(labels)
	if n < 3 || labels[n-1] != "svc" || (labels[n-2] == "default" && labels[n-3] == "kubernetes") {
		return false
	}
	return slices.Contains(c.Denied.Namespaces, labels[n-2]) || slices.Contains(c.Denied.Namespaces, "*")
}

func isIn(ranges []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(address) })
}
