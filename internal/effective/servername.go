package effective

import (
	"net"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// ServerName returns the name that nginx sends in SNI and checks in the certificate of an https origin; "" if the spec
// does not determine a name.
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

// nameOnly removes the dot at the end of a name. DNS allows this dot, but a certificate does not. It returns "" for an
// address, because nginx cannot check a certificate against an address.
func nameOnly(host string) string {
	if net.ParseIP(host) != nil {
		return ""
	}
	return strings.TrimSuffix(host, ".")
}
