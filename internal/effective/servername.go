package effective

import (
	"net"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// ServerName returns the name for SNI and for the check of an https origin's certificate; "" if none follows from the
// spec.
func ServerName(o v1alpha1.Origin) string {
	if o.TLS != nil && o.TLS.ServerName != nil {
		return *o.TLS.ServerName
	}
	if o.HostHeader != nil {
		if host, _, err := net.SplitHostPort(*o.HostHeader); err == nil {
			return nameOnly(host)
		}
		return nameOnly(*o.HostHeader)
	}
	name := ""
	for i, s := range o.Servers {
		host := ptr.Deref(s.Host, "")
		if i > 0 && host != name {
			return ""
		}
		name = host
	}
	return nameOnly(name)
}

// nameOnly drops the dot that may end a name in DNS but not in a certificate. It also drops an address, as nginx cannot
// check a certificate against one.
func nameOnly(host string) string {
	if net.ParseIP(host) != nil {
		return ""
	}
	return strings.TrimSuffix(host, ".")
}
