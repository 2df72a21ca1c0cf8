package main

import (
	"flag"
	"fmt"
	"net/netip"
	"strings"

	"github.com/distribution/reference"
	dnsname "k8s.io/apimachinery/pkg/util/validation"

	"github.com/cachenode/cachenode-operator/internal/validation"
)

// policyFlags are the flags that limit what CacheNodes may request. The value of each flag is a comma-separated list.
type policyFlags struct {
	localPathPrefixes, images, priorityClasses, deniedTolerations, originNamespaces, deniedOriginRanges string
	podAnnotations, serviceAnnotations, antiAffinityNamespaces                                          string
}

func (f *policyFlags) bind(flags *flag.FlagSet) {
	d := validation.DefaultPolicy()
	text := func(target *string, name string, value []string, usage string) {
		flags.StringVar(target, name, strings.Join(value, ","), usage)
	}
	text(&f.localPathPrefixes, "local-path-prefixes", d.LocalPathPrefixes,
		"comma-separated folders on nodes; the localPath of a disk must be a folder directly in one of them. "+
			"Users who can write CacheNodes can use such folders on any node. "+
			"Empty: localPath is not allowed")
	text(&f.images, "allowed-images", d.Images,
		"comma-separated repositories that pod.image may come from; "+
			"a repository that ends with / allows all below it, * allows any image")
	text(&f.priorityClasses, "allowed-priority-classes", d.PriorityClasses,
		"comma-separated names that pod.priorityClassName may have; default: none")
	text(&f.deniedTolerations, "denied-tolerations", d.DeniedTolerations,
		"comma-separated keys of taints that pod.tolerations must not name; "+
			"if there are any, a toleration without a key is refused too, as it tolerates all taints")
	text(&f.podAnnotations, "allowed-pod-annotations", d.PodAnnotations,
		"comma-separated keys that pod.annotations may have; an entry that ends with * stands for all that begin like it; "+
			"default: none. Annotations can give a pod a cloud's identity or another network")
	text(&f.serviceAnnotations, "allowed-service-annotations", d.ServiceAnnotations,
		"comma-separated keys that service.annotations may have, likewise; default: none")
	text(&f.antiAffinityNamespaces, "anti-affinity-namespaces", d.AntiAffinityNamespaces,
		"comma-separated namespaces whose pods the pods of CacheNodes in other namespaces may require to be apart from, "+
			"which keeps those from the nodes; *: all, default: none")
	text(&f.originNamespaces, "origin-namespaces", d.OriginNamespaces,
		"comma-separated namespaces whose Services may be origins of CacheNodes in other namespaces; "+
			"*: all, default: none")
	text(&f.deniedOriginRanges, "denied-origin-ranges", nil,
		"comma-separated ranges of IPv4 addresses, such as 10.0.0.0/8, that no origin may have; "+
			"loopback, link-local and multicast addresses and those of the API server are always denied")
}

// policy returns the policy that the flags define. apiServer is the API server's address within the cluster; "" if it
// is not known.
func (f *policyFlags) policy(clusterDomain, apiServer string) (validation.Policy, error) {
	p := validation.Policy{
		Images: list(f.images), PriorityClasses: list(f.priorityClasses), DeniedTolerations: list(f.deniedTolerations),
		OriginNamespaces: list(f.originNamespaces), ClusterDomain: strings.ToLower(strings.TrimSuffix(clusterDomain, ".")),
		PodAnnotations: list(f.podAnnotations), ServiceAnnotations: list(f.serviceAnnotations),
		AntiAffinityNamespaces: list(f.antiAffinityNamespaces),
	}
	if problems := dnsname.IsDNS1123Subdomain(p.ClusterDomain); len(problems) > 0 {
		return p, fmt.Errorf("--cluster-domain: %q: %s", clusterDomain, strings.Join(problems, "; "))
	}
	for _, prefix := range list(f.localPathPrefixes) {
		p.LocalPathPrefixes = append(p.LocalPathPrefixes, strings.TrimSuffix(prefix, "/"))
	}
	for i, image := range p.Images {
		if image == "*" || strings.HasSuffix(image, "/") {
			continue
		}
		named, err := reference.ParseNormalizedNamed(image)
		if err != nil || !reference.IsNameOnly(named) {
			return p, fmt.Errorf("--allowed-images: %q: "+
				"want a repository without tag or digest, such as registry.example.com/nginx", image)
		}
		p.Images[i] = named.Name()
	}
	for _, text := range list(f.deniedOriginRanges) {
		denied, err := netip.ParsePrefix(text)
		if err == nil && !denied.Addr().Is4() {
			err = fmt.Errorf("%s is no range of IPv4 addresses, and nginx asks for no others", text)
		}
		if err != nil {
			return p, fmt.Errorf("--denied-origin-ranges: %w", err)
		}
		p.DeniedOriginRanges = append(p.DeniedOriginRanges, denied.Masked())
	}
	if address, err := netip.ParseAddr(apiServer); err == nil {
		p.DeniedOriginRanges = append(p.DeniedOriginRanges, netip.PrefixFrom(address, address.BitLen()))
	}
	if err := p.Check(); err != nil {
		return p, fmt.Errorf("--local-path-prefixes: %w", err)
	}
	return p, nil
}
