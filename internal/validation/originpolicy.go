package validation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// originServer checks the origins that can be checked before nginx resolves a name. These are Services, names in the
// cluster's domain, and addresses. For other names, the agent refuses denied addresses when it resolves the name, and a
// NetworkPolicy limits the pods' egress.
func (p Policy) originServer(s v1alpha1.OriginServer, namespace string, at *field.Path) field.ErrorList {
	if s.Service != nil {
		return p.originService(s.Service.Name, ptr.Deref(s.Service.Namespace, namespace), namespace, at.Child("service"))
	}
	host := strings.TrimSuffix(ptr.Deref(s.Host, ""), ".")
	at = at.Child("host")
	if address, err := netip.ParseAddr(host); err == nil {
		return p.originAddress(address, at)
	}
	labels := strings.Split(host, ".")
	if isNumber(labels[len(labels)-1]) {
		// nginx and the C library read some of these names as addresses: nginx reads 0127.0.0.1 as 127.0.0.1.
		return field.ErrorList{field.Invalid(at, host, "ends in a number and is no IPv4 address in its usual form: "+
			"write four numbers from 0 to 255 without leading zeros")}
	}
	inside, ok := strings.CutSuffix(host, "."+p.ClusterDomain)
	if !ok {
		return nil
	}
	labels = strings.Split(inside, ".")
	if n := len(labels); n >= 3 && labels[n-1] == "svc" { // [pod.]service.namespace.svc
		return p.originService(labels[n-3], labels[n-2], namespace, at)
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf("%s is a name in the cluster's domain that names no Service: "+
		"use service, or SERVICE.NAMESPACE.svc.%s", host, p.ClusterDomain))}
}

func (p Policy) originService(name, of, namespace string, at *field.Path) field.ErrorList {
	if name == "kubernetes" && of == "default" {
		return field.ErrorList{field.Forbidden(at, "is the API server, which is no origin: name another Service")}
	}
	if of == namespace || slices.Contains(p.OriginNamespaces, of) || slices.Contains(p.OriginNamespaces, anything) {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf("Service %s is in namespace %s, "+
		"and the operator allows Services of the CacheNode's own namespace, %s: "+
		"use one of these, or add the namespace to the chart's originNamespaces (the operator's --origin-namespaces)",
		name, of, strings.Join(append([]string{namespace}, p.OriginNamespaces...), ", ")))}
}

func (p Policy) originAddress(address netip.Addr, at *field.Path) field.ErrorList {
	for _, denied := range slices.Concat(NoOrigin, p.DeniedOriginRanges) {
		if denied.Contains(address) {
			return field.ErrorList{field.Forbidden(at, fmt.Sprintf("%s is in %s, where no origin may be "+
				"(the chart's deniedOriginRanges, the operator's --denied-origin-ranges, "+
				"loopback, link-local and multicast addresses): "+
				"name another address", address, denied))}
		}
	}
	return nil
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
