package validation

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// Policy describes what the owner of a cluster allows in CacheNodes. An empty list of allowed values allows nothing.
// Policy is safe for concurrent use as long as nobody changes it.
type Policy struct {
	// LocalPathPrefixes are the folders on nodes whose direct subfolders may be disks, such as /mnt, without a slash at
	// the end. No prefix is inside another prefix.
	LocalPathPrefixes []string
	// Images are the repositories of nginx images that pods may run, such as docker.io/library/nginx. An entry that ends
	// with a slash stands for all repositories below it. "*" allows every image.
	Images []string
	// PriorityClasses are the names that pod.priorityClassName may have.
	PriorityClasses []string
	// DeniedTolerations are the keys of taints that pods must not tolerate. A toleration without a key tolerates every
	// taint. If the list is not empty, such a toleration is refused too.
	DeniedTolerations []string
	// PodAnnotations and ServiceAnnotations are the keys that pod.annotations and service.annotations may have. An entry
	// that ends with * stands for all keys that begin with the text before the *. The keys are limited because annotations
	// can grant rights: controllers in a cluster read them to assign a cloud identity, a network or an address.
	PodAnnotations, ServiceAnnotations []string
	// AntiAffinityNamespaces are the namespaces that the required anti-affinity of a CacheNode's pods may name, in
	// addition to the CacheNode's own namespace. Such an anti-affinity also works in the other direction. The scheduler
	// then keeps new pods of these namespaces off the nodes on which the CacheNode's pods run. "*" allows all.
	AntiAffinityNamespaces []string
	// OriginNamespaces are the namespaces whose Services may be the origin of a CacheNode in another namespace. "*"
	// allows all.
	OriginNamespaces []string
	// DeniedOriginRanges are ranges of addresses that no origin may have, in addition to the ranges of NoOrigin.
	DeniedOriginRanges []netip.Prefix
	// ClusterDomain is the domain of the cluster's Services, usually cluster.local.
	ClusterDomain string
}

// DefaultPolicy returns the policy that the operator uses if no flag changes it.
func DefaultPolicy() Policy {
	return Policy{
		LocalPathPrefixes: []string{"/mnt"},
		Images:            []string{"docker.io/library/nginx", "docker.io/nginxinc/nginx-unprivileged"},
		DeniedTolerations: []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"},
		ClusterDomain:     "cluster.local",
	}
}

// NoOrigin are the address ranges that no origin may use. These are the addresses of the pod itself, link-local
// addresses, and addresses that do not belong to a single host. Link-local addresses are not allowed because cloud
// providers use them to serve credentials to machines.
var NoOrigin = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
}

// anything is the entry of a list that allows everything.
const anything = "*"

// Check returns an error if the policy itself is not valid.
func (p Policy) Check() error {
	for _, folder := range p.LocalPathPrefixes {
		if !path.IsAbs(folder) || path.Clean(folder) != folder || folder == "/" {
			return fmt.Errorf("local path prefix %q: want an absolute path such as /mnt, and not /", folder)
		}
		for _, other := range p.LocalPathPrefixes {
			if other != folder && strings.HasPrefix(folder+"/", other+"/") {
				return fmt.Errorf("local path prefix %s lies in %s: a user of a disk of one could redirect the other "+
					"by a symbolic link; name only one of them", folder, other)
			}
		}
	}
	return nil
}

// Violations returns an error for each part of a CacheNode that the policy does not allow.
func (p Policy) Violations(cacheNode *v1alpha1.CacheNode) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	for i, d := range cacheNode.Spec.Disks {
		if d.LocalPath != nil {
			errs = append(errs, p.localPath(d.LocalPath.Path, spec.Child("disks").Index(i).Child("localPath", "path"))...)
		}
	}
	for i, s := range cacheNode.Spec.Origin.Servers {
		errs = append(errs, p.originServer(s, cacheNode.Namespace, spec.Child("origin", "servers").Index(i))...)
	}
	errs = append(errs, annotations(cacheNode.Spec.Service.Annotations, p.ServiceAnnotations,
		spec.Child("service", "annotations"),
		"the chart's allowedServiceAnnotations (the operator's --allowed-service-annotations)")...)
	errs = append(errs, p.antiAffinity(cacheNode, spec.Child("pod", "affinity", "podAntiAffinity"))...)
	return append(errs, p.pod(cacheNode.Spec.Pod, spec.Child("pod"))...)
}

// AllowsLocalPath returns true for a folder that may be a disk. The folder must be directly in an allowed folder. A
// deeper path would not be safe: a user who can write to a disk higher in the path could replace a folder of the path
// by a symbolic link. The kubelet follows such a link as root.
func (p Policy) AllowsLocalPath(name string) bool {
	return path.Clean(name) == name && slices.Contains(p.LocalPathPrefixes, path.Dir(name))
}

func (p Policy) localPath(name string, at *field.Path) field.ErrorList {
	switch {
	case p.AllowsLocalPath(name):
		return nil
	case len(p.LocalPathPrefixes) == 0:
		return field.ErrorList{field.Forbidden(at, "the operator allows no localPath: "+
			"use storageClassName, or set the chart's localPathPrefixes (the operator's --local-path-prefixes)")}
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf("%s must be a folder directly in %s: "+
		"mount the disk there, or add its parent folder to "+
		"the chart's localPathPrefixes (the operator's --local-path-prefixes)",
		name, strings.Join(p.LocalPathPrefixes, " or ")))}
}

func (p Policy) pod(pod v1alpha1.Pod, at *field.Path) field.ErrorList {
	errs := annotations(pod.Annotations, p.PodAnnotations, at.Child("annotations"),
		"the chart's allowedPodAnnotations (the operator's --allowed-pod-annotations)")
	if image := effective.NamedImage(pod); image != "" && !p.allowsImage(image) {
		errs = append(errs, field.Forbidden(at.Child("image"), fmt.Sprintf("%s is not from an allowed repository (%s): "+
			"use one of them, or add it to the chart's allowedImages (the operator's --allowed-images)",
			pod.Image, strings.Join(p.Images, ", "))))
	}
	if class := pod.PriorityClassName; class != "" && !slices.Contains(p.PriorityClasses, class) {
		errs = append(errs, field.Forbidden(at.Child("priorityClassName"), fmt.Sprintf("%s is not allowed: "+
			"leave it out, or add it to the chart's allowedPriorityClasses (the operator's --allowed-priority-classes)", class)))
	}
	for i, t := range pod.Tolerations {
		if p.deniesToleration(t) {
			errs = append(errs, field.Forbidden(at.Child("tolerations").Index(i), fmt.Sprintf("tolerates taints that "+
				"the operator keeps cache pods away from (%s): "+
				"name other keys, or change the chart's deniedTolerations (the operator's --denied-tolerations)",
				strings.Join(p.DeniedTolerations, ", "))))
		}
	}
	return errs
}

func (p Policy) deniesToleration(t corev1.Toleration) bool {
	return len(p.DeniedTolerations) > 0 && (t.Key == "" || slices.Contains(p.DeniedTolerations, t.Key))
}

// allowsImage compares the full names of repositories, so "nginx" means docker.io/library/nginx. If an allowed name
// does not end with a slash, it allows only this name, and no longer name that begins with it.
func (p Policy) allowsImage(image string) bool {
	if slices.Contains(p.Images, anything) {
		return true
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(p.Images, func(allowed string) bool {
		return named.Name() == allowed || (strings.HasSuffix(allowed, "/") && strings.HasPrefix(named.Name(), allowed))
	})
}
