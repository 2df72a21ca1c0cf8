// Package validation checks the rules that the CRD's schema and CEL rules cannot express: sums, and rules that depend
// on defaults in the code. It is pure. Every message names the field and the remedy.
//
// It may import the packages that define the meaning of a spec: effective, sites, and the packages that these two
// import. If CEL can express a rule, put the rule in the API and not here.
package validation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// Validate returns the errors in a CacheNode. Its spec must include the CRD's defaults and must have passed the CRD's
// rules.
func Validate(cacheNode *v1alpha1.CacheNode) field.ErrorList {
	spec := field.NewPath("spec")
	errs := disks(cacheNode.Spec.Disks, spec.Child("disks"))
	errs = append(errs, memory(cacheNode.Spec, spec)...)
	errs = append(errs, memoryTier(cacheNode.Spec, spec)...)
	if own := sites.Own(cacheNode.Spec); !own.IsEmpty() {
		errs = append(errs, origin(own.Origin, spec.Child("origin"))...)
	}
	errs = append(errs, routing(cacheNode.Spec, spec)...)
	return append(errs, pod(cacheNode.Spec.Pod, spec.Child("pod"))...)
}

// Warnings returns texts about settings that are valid but not recommended.
func Warnings(cacheNode *v1alpha1.CacheNode) []string {
	var list []string
	// An earlier schema had a default for this field, a list of seven items, and some objects still contain this list. So
	// a list of seven items causes no warning.
	if s := cacheNode.Spec.Cache.UseStale; s != nil && len(s) != 7 {
		list = append(list, "spec.cache.useStale is deprecated: "+
			"remove it, and set in spec.cache.staleWhileRevalidate and spec.cache.staleIfError "+
			"how long objects may be served stale")
	}
	if !sites.Own(cacheNode.Spec).IsEmpty() && len(cacheNode.Spec.Hosts) == 0 &&
		slices.Contains(cacheNode.Spec.Cache.Key, v1alpha1.KeyHost) {
		list = append(list, "spec.hosts is empty and spec.cache.key has Host in it, "+
			"so strangers can fill the disks by making up host names: list the names that are served")
	}
	return list
}

// routing checks that the number of pods that share keys does not exceed fleet.MaxMembers, the largest number that has
// been measured.
func routing(spec v1alpha1.CacheNodeSpec, path *field.Path) field.ErrorList {
	replicas := ptr.Deref(spec.Replicas, 1)
	if spec.Routing.Mode != v1alpha1.RoutingSharded || replicas <= fleet.MaxMembers {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("replicas"), replicas, fmt.Sprintf(
		"at most %d pods can share keys: lower it, or set routing.mode to Local", fleet.MaxMembers))}
}

func disks(disks []v1alpha1.Disk, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, d := range disks {
		if ptr.Deref(d.StorageClassName, "") == naming.LocalClass { // the object is older than the schema's rule
			errs = append(errs, field.Forbidden(path.Index(i).Child("storageClassName"),
				naming.LocalClass+" is for the volumes that the operator makes: "+
					"remove the disk and add one with another name and localPath or another class"))
		}
		if d.Name == "memory" { // the object is older than the schema's rule
			errs = append(errs, field.Forbidden(path.Index(i).Child("name"),
				"memory is what the memory tier is called: remove the disk and add it with another name"))
		}
		health, path := path.Index(i).Child("health"), path.Index(i).Child("cache")
		size := d.Size.Value()
		switch maxSize, minFree := d.Cache.MaxSize, d.Cache.MinFree; {
		case maxSize != nil && maxSize.Value() > size:
			errs = append(errs, field.Invalid(path.Child("maxSize"), maxSize.String(),
				fmt.Sprintf("is more than the disk's size %s: lower it, or leave it out for 90%% of the size", d.Size.String())))
		case minFree != nil && minFree.Value() >= size:
			errs = append(errs, field.Invalid(path.Child("minFree"), minFree.String(),
				fmt.Sprintf("must be less than the disk's size %s", d.Size.String())))
		case maxSize != nil && minFree != nil && maxSize.Value()+minFree.Value() > size:
			errs = append(errs, field.Invalid(path.Child("minFree"), minFree.String(),
				fmt.Sprintf("with maxSize %s is more than the disk's size %s: lower one of them",
					maxSize.String(), d.Size.String())))
		}
		free, keeps := d.Health.MinFree, effective.MinFree(d)
		if free != nil && !free.IsZero() && keeps > 0 && free.Value() >= keeps {
			errs = append(errs, field.Invalid(health.Child("minFree"), free.String(),
				fmt.Sprintf("is not less than cache.minFree, %s, which nginx keeps free: the disk would be taken out of use "+
					"as soon as it is as full as it should be; lower it", effective.Bytes(keeps))))
		}
		if d.Cache.Inactive != "" && effective.Duration(d.Cache.Inactive) <= 0 {
			errs = append(errs, field.Invalid(path.Child("inactive"), d.Cache.Inactive,
				"must be more than 0: objects would be removed at once"))
		}
	}
	return errs
}

// memoryTier checks the tier's durations, and its size against the memory limit and request. The pages of the tier
// count towards the memory limit. Unlike the pages of the page cache, the kernel cannot reclaim them.
func memoryTier(spec v1alpha1.CacheNodeSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	path = path.Child("memoryTier")
	if spec.MemoryTier.Enabled != nil && !*spec.MemoryTier.Enabled {
		return nil
	}
	if age := spec.MemoryTier.MaxExtraAge; age != "" && effective.Duration(age) < time.Second {
		errs = append(errs, field.Invalid(path.Child("maxExtraAge"), spec.MemoryTier.MaxExtraAge, "must be at least 1s"))
	}
	if inactive := spec.MemoryTier.Inactive; inactive != "" && effective.Duration(inactive) < time.Second {
		errs = append(errs, field.Invalid(path.Child("inactive"), spec.MemoryTier.Inactive, "must be at least 1s"))
	}
	size, resources := spec.MemoryTier.Size, spec.Pod.Resources
	if size == nil {
		return errs
	}
	limit := resources.Limits.Memory()
	needed := effective.Memory(spec) + 2*effective.TierKeys(spec.MemoryTier)
	switch {
	case !limit.IsZero() && size.Value() > limit.Value()/2:
		errs = append(errs, field.Invalid(path.Child("size"), size.String(),
			fmt.Sprintf("is more than half of spec.pod.resources.limits.memory, %s: lower it, or raise the limit",
				limit.String())))
	case !limit.IsZero() && size.Value()+needed > limit.Value():
		errs = append(errs, field.Invalid(path.Child("size"), size.String(),
			fmt.Sprintf("with the %s that nginx needs for itself and the keys zones it is %s, "+
				"and spec.pod.resources.limits.memory is %s: lower one of them, or raise the limit",
				effective.Bytes(needed), effective.Bytes(size.Value()+needed), limit.String())))
	}
	if request, ok := resources.Requests[corev1.ResourceMemory]; ok && size.Cmp(request) > 0 {
		errs = append(errs, field.Invalid(path.Child("size"), size.String(),
			fmt.Sprintf("is more than spec.pod.resources.requests.memory, %s: the node may not have it; raise the request",
				request.String())))
	}
	return errs
}

// memory checks that the memory that nginx needs fits into the memory limit. nginx creates the keys zones when it
// starts. If they exceed the limit, the kernel kills nginx again and again.
func memory(spec v1alpha1.CacheNodeSpec, path *field.Path) field.ErrorList {
	limit := spec.Pod.Resources.Limits.Memory()
	needed := effective.Memory(spec)
	if limit.IsZero() || needed <= limit.Value() {
		return nil
	}
	message := fmt.Sprintf("the keys zones of all disks are %s together; with nginx's own they need %s "+
		"and do not fit into the memory limit %s: "+
		"lower spec.disks[].cache.keysZone or raise spec.pod.resources.limits.memory",
		effective.Bytes(effective.Sum(effective.KeysZones(spec.Disks, limit.Value()))), effective.Bytes(needed),
		limit.String())
	for i, d := range spec.Disks {
		if d.Cache.KeysZone != nil {
			at := path.Child("disks").Index(i).Child("cache", "keysZone")
			return field.ErrorList{field.Invalid(at, d.Cache.KeysZone.String(), message)}
		}
	}
	return field.ErrorList{field.Invalid(path.Child("pod", "resources", "limits").Key("memory"), limit.String(), message)}
}

func origin(o v1alpha1.Origin, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if o.Scheme == "https" && effective.ServerName(o) == "" {
		errs = append(errs, field.Required(path.Child("tls", "serverName"),
			"no name follows from the servers: set serverName or origin.hostHeader, so that the certificate can be checked"))
	}
	if o.TLS != nil && o.TLS.CABundle != nil {
		references := map[string]*v1alpha1.KeyReference{
			"secret":    o.TLS.CABundle.Secret,
			"configMap": o.TLS.CABundle.ConfigMap,
		}
		for name, ref := range references {
			if ref != nil {
				path := path.Child("tls", "caBundle", name)
				errs = append(errs, named(path.Child("name"), ref.Name, validation.IsDNS1123Subdomain(ref.Name))...)
				errs = append(errs, named(path.Child("key"), ref.Key, validation.IsConfigMapKey(ref.Key))...)
			}
		}
	}
	return errs
}

func pod(p v1alpha1.Pod, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(p.Labels, path.Child("labels"))
	if strings.ContainsFunc(p.Image, func(r rune) bool { return r <= ' ' }) {
		errs = append(errs, field.Invalid(path.Child("image"), p.Image, "must not contain white space"))
	}
	if cpu := p.Resources.Limits.Cpu(); cpu.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("resources", "limits").Key("cpu"), cpu.String(), "must not be negative"))
	}
	return errs
}

func named(path *field.Path, value string, problems []string) field.ErrorList {
	var errs field.ErrorList
	for _, p := range problems {
		errs = append(errs, field.Invalid(path, value, p))
	}
	return errs
}
