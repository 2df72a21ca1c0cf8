package controllers

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

type handEdit struct {
	object   client.Object
	change   func()
	repaired func() bool
}

// handEdits returns at least one hand edit for each kind of object that the operator creates for a CacheNode.
func handEdits(cacheNode *v1alpha1.CacheNode) map[string]handEdit {
	list := children(cacheNode)
	set, service, headless := list[0].(*appsv1.StatefulSet), list[1].(*corev1.Service), list[2].(*corev1.Service)
	budget, configMap := list[3].(*policyv1.PodDisruptionBudget), list[4].(*corev1.ConfigMap)
	secret := list[5].(*corev1.Secret)
	unlabelled := func(o client.Object) handEdit {
		return handEdit{
			o,
			func() { o.SetLabels(map[string]string{naming.LabelManagedBy: naming.FieldManager}) },
			func() bool { return o.GetLabels()[naming.LabelInstance] == cacheNode.Name },
		}
	}
	return map[string]handEdit{
		"StatefulSet: image": {
			set,
			func() { set.Spec.Template.Spec.Containers[0].Image = "evil" },
			func() bool { return set.Spec.Template.Spec.Containers[0].Image == v1alpha1.DefaultImage },
		},
		"StatefulSet: read-only root file system": {
			set,
			func() { set.Spec.Template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem = new(false) },
			func() bool { return *set.Spec.Template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem },
		},
		"StatefulSet: no longer labelled as ours": {
			set,
			func() { set.SetLabels(nil) },
			func() bool { return set.Labels[naming.LabelManagedBy] == naming.FieldManager },
		},
		"StatefulSet: replicas": {
			set,
			func() { set.Spec.Replicas = ptr.To[int32](7) },
			func() bool { return *set.Spec.Replicas == 2 },
		},
		"Service: port": {
			service,
			func() { service.Spec.Ports[0].Port = 99 },
			func() bool { return len(service.Spec.Ports) == 1 && service.Spec.Ports[0].Port == 80 },
		},
		"Service: selector": {
			service,
			func() { service.Spec.Selector = map[string]string{"app": "other"} },
			func() bool { return service.Spec.Selector[naming.LabelInstance] == cacheNode.Name },
		},
		"Service: no longer labelled as ours": {
			service,
			func() { service.SetLabels(nil) },
			func() bool { return service.Labels[naming.LabelManagedBy] == naming.FieldManager },
		},
		"headless Service: not ready addresses": {
			headless,
			func() { headless.Spec.PublishNotReadyAddresses = false },
			func() bool { return headless.Spec.PublishNotReadyAddresses },
		},
		"PodDisruptionBudget: maxUnavailable": {
			budget,
			func() { budget.Spec.MaxUnavailable = new(intstr.FromInt32(9)) },
			func() bool { return budget.Spec.MaxUnavailable.IntVal != 9 },
		},
		"ConfigMap: labels": unlabelled(configMap),
		"ConfigMap: the revision": {
			configMap,
			func() {
				configMap.Data[naming.StableKey] = strings.Replace(configMap.Data[naming.StableKey], `"port":80`, `"port":81`, 1)
			},
			func() bool { return strings.Contains(configMap.Data[naming.StableKey], `"port":80`) },
		},
		"Secret: certificate": {
			secret,
			func() { secret.Data[naming.ServerCertificateKey] = []byte("none") },
			func() bool { return len(secret.Data[naming.ServerCertificateKey]) > 100 },
		},
		"ConfigMap: owner": {
			configMap,
			func() { configMap.OwnerReferences = nil },
			func() bool { return len(configMap.OwnerReferences) == 1 },
		},
	}
}
