package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// annotations returns an error for each key that is not allowed. The parameter setting is a text that names the chart's
// value and the operator's flag with which keys are allowed.
func annotations(values map[string]string, allowed []string, at *field.Path, setting string) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !matchesAny(allowed, key) {
			errs = append(errs, field.Forbidden(at.Key(key), fmt.Sprintf(
				"is not allowed: remove it, or add its key, or its beginning and *, to %s", setting)))
		}
	}
	return errs
}

// matchesAny returns true if a text equals an entry of the list. For an entry that ends with *, the text must only
// begin with the part before the *.
func matchesAny(list []string, text string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		if beginning, isPrefix := strings.CutSuffix(entry, "*"); isPrefix {
			return strings.HasPrefix(text, beginning)
		}
		return entry == text
	})
}

// antiAffinity returns an error for each required anti-affinity term that keeps away pods of namespaces that the policy
// does not allow.
func (p Policy) antiAffinity(cacheNode *v1alpha1.CacheNode, at *field.Path) field.ErrorList {
	affinity := cacheNode.Spec.Pod.Affinity
	if affinity == nil || affinity.PodAntiAffinity == nil || slices.Contains(p.AntiAffinityNamespaces, anything) {
		return nil
	}
	var errs field.ErrorList
	at = at.Child("requiredDuringSchedulingIgnoredDuringExecution")
	for i, term := range affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.NamespaceSelector != nil {
			errs = append(errs, field.Forbidden(at.Index(i).Child("namespaceSelector"),
				"would keep pods of other namespaces from the nodes: remove it, or prefer to be apart from them, "+
					"or set the chart's antiAffinityNamespaces (the operator's --anti-affinity-namespaces) to *"))
		}
		errs = append(errs, p.apartFrom(term, cacheNode.Namespace, at.Index(i).Child("namespaces"))...)
	}
	return errs
}

func (p Policy) apartFrom(term corev1.PodAffinityTerm, own string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, namespace := range term.Namespaces {
		if namespace != own && !slices.Contains(p.AntiAffinityNamespaces, namespace) {
			errs = append(errs, field.Forbidden(at.Index(i), fmt.Sprintf(
				"would keep pods of namespace %s from the nodes: remove it, or prefer to be apart from them, "+
					"or add the namespace to the chart's antiAffinityNamespaces (the operator's --anti-affinity-namespaces)",
				namespace)))
		}
	}
	return errs
}
