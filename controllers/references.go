package controllers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/sites"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// references reads the objects to which CacheNodes refer. It is safe for concurrent use.
type references struct {
	// live reads content from the API server.
	live     client.Reader
	services services
}

// bundle returns the certificates of the origin's CA bundle; "" if the spec names no bundle. The operator copies them
// into the CacheNode's own ConfigMap, so that a pod can start after the bundle was deleted. Nothing else of a Secret
// is copied. The error is a [status.Problem] if the bundle is missing, or if its content is no CA bundle.
func (r references) bundle(ctx context.Context, cacheNode *v1alpha1.CacheNode) (string, error) {
	kind, ref := caBundleReference(cacheNode)
	if ref == nil {
		return "", nil
	}
	what := fmt.Sprintf("spec.origin.tls.caBundle.%s: key %q of %s %q in namespace %q",
		map[string]string{"Secret": "secret", "ConfigMap": "configMap"}[kind], ref.Key, kind, ref.Name, cacheNode.Namespace)
	name := client.ObjectKey{Namespace: cacheNode.Namespace, Name: ref.Name}
	content, found, err := r.key(ctx, kind, name, ref.Key)
	if err != nil {
		return "", fmt.Errorf("read %s %s: %w", kind, ref.Name, err)
	}
	if !found {
		return "", &status.Problem{
			Reason: v1alpha1.ReasonReferenceNotFound, Message: what + " does not exist: create it, or name another",
		}
	}
	bundle, err := certificates(content)
	if err != nil {
		return "", &status.Problem{Reason: v1alpha1.ReasonInvalidReference, Message: fmt.Sprintf("%s: %v", what, err)}
	}
	return bundle, nil
}

// certificate returns the status entry for the certificate that clients see; nil if the spec names no certificate.
// The pods mount its Secret and cannot start without it. The error is a [status.Problem] if the Secret is missing or
// unusable.
func (r references) certificate(
	ctx context.Context, cacheNode *v1alpha1.CacheNode,
) (*v1alpha1.CertificateStatus, error) {
	listener := cacheNode.Spec.Listen.TLS
	if listener == nil {
		return nil, nil
	}
	what := fmt.Sprintf("spec.listen.tls.secretName: Secret %q in namespace %q", listener.SecretName, cacheNode.Namespace)
	secret := &corev1.Secret{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: cacheNode.Namespace, Name: listener.SecretName}, secret)
	if apierrors.IsNotFound(err) {
		return nil, &status.Problem{
			Reason: v1alpha1.ReasonReferenceNotFound, Message: what + " does not exist: create it, or name another",
		}
	}
	if err != nil {
		return nil, err
	}
	if isManaged(secret) {
		return nil, &status.Problem{
			Reason:  v1alpha1.ReasonInvalidReference,
			Message: what + " is the operator's own, for its agents: name one of type kubernetes.io/tls",
		}
	}
	if err := gateways.CheckKey(secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return nil, &status.Problem{
			Reason: v1alpha1.ReasonInvalidReference, Message: fmt.Sprintf("%s: tls.key: %v", what, err),
		}
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, &status.Problem{
			Reason: v1alpha1.ReasonInvalidReference, Message: fmt.Sprintf("%s: tls.crt and tls.key: %v", what, err),
		}
	}
	return validity(pair), nil
}

// validity returns the time for which all certificates of a chain are valid.
func validity(pair tls.Certificate) *v1alpha1.CertificateStatus {
	from, until := pair.Leaf.NotBefore, pair.Leaf.NotAfter
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			continue // nginx also sends a certificate that cannot be parsed, and clients decide about it
		}
		if c.NotBefore.After(from) {
			from = c.NotBefore
		}
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return status.CertificateOf(from, until)
}

// isManaged returns true for a Secret that the operator created. Such a Secret also contains the operator's own key,
// by which agents recognize the operator.
func isManaged(secret *corev1.Secret) bool {
	return secret.Labels[naming.LabelManagedBy] == naming.FieldManager
}

func caBundleReference(cacheNode *v1alpha1.CacheNode) (kind string, ref *v1alpha1.KeyReference) {
	tls := sites.Own(cacheNode.Spec).Origin.TLS
	switch {
	case tls == nil || tls.CABundle == nil:
		return "", nil
	case tls.CABundle.Secret != nil:
		return "Secret", tls.CABundle.Secret
	}
	return "ConfigMap", tls.CABundle.ConfigMap
}

// key reads one key of a Secret or a ConfigMap. found is false if the object or its key is missing.
func (r references) key(
	ctx context.Context, kind string, name client.ObjectKey, key string,
) (content []byte, found bool, err error) {
	if kind == "Secret" {
		secret := &corev1.Secret{}
		if err := r.live.Get(ctx, name, secret); err != nil {
			return nil, false, client.IgnoreNotFound(err)
		}
		if isManaged(secret) {
			message := fmt.Sprintf("spec.origin.tls.caBundle.secret: "+
				"Secret %q is the operator's own, for its agents: name another", name.Name)
			return nil, false, &status.Problem{Reason: v1alpha1.ReasonInvalidReference, Message: message}
		}
		content, found = secret.Data[key]
		return content, found, nil
	}
	configMap := &corev1.ConfigMap{}
	if err := r.live.Get(ctx, name, configMap); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, false, nil
		}
		return nil, false, err
	}
	if text, ok := configMap.Data[key]; ok {
		return []byte(text), true, nil
	}
	content, found = configMap.BinaryData[key]
	return content, found, nil
}

// certificates returns the certificates in a PEM text and refuses any other content. So a private key that was stored
// under the wrong key never gets into a ConfigMap.
func certificates(text []byte) (string, error) {
	var out bytes.Buffer
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return "", fmt.Errorf("holds a PEM block %q: it must hold certificates only", block.Type)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", fmt.Errorf("holds a certificate that cannot be read: %w", err)
		}
		if err := pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes}); err != nil {
			return "", err
		}
		text = rest
	}
	if out.Len() == 0 {
		return "", fmt.Errorf("holds no PEM certificate")
	}
	return out.String(), nil
}

// referenceIndex finds the CacheNodes that refer to an object. Its keys have the form "Kind/namespace/name".
const referenceIndex = "references"

func indexReferences(mgr ctrl.Manager) error {
	keysOf := func(o client.Object) []string {
		cacheNode := o.(*v1alpha1.CacheNode)
		var keys []string
		if kind, ref := caBundleReference(cacheNode); ref != nil {
			keys = append(keys, referenceKey(kind, cacheNode.Namespace, ref.Name))
		}
		if listener := cacheNode.Spec.Listen.TLS; listener != nil {
			keys = append(keys, referenceKey("Secret", cacheNode.Namespace, listener.SecretName))
		}
		for _, s := range sites.Own(cacheNode.Spec).Origin.Servers {
			if s.Service != nil {
				name := serviceOf(s, cacheNode.Namespace)
				keys = append(keys, referenceKey("Service", name.Namespace, name.Name))
			}
		}
		return keys
	}
	return mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.CacheNode{}, referenceIndex, keysOf)
}

// serviceOf returns the name of the Service of a server of the origin. namespace is that of the CacheNode.
func serviceOf(s v1alpha1.OriginServer, namespace string) types.NamespacedName {
	return types.NamespacedName{Namespace: ptr.Deref(s.Service.Namespace, namespace), Name: s.Service.Name}
}

// resolvePorts replaces the port of each Service of an origin by the port to which requests are sent; see
// [gateways.Service]. A Service that cannot be found keeps its port.
func (r references) resolvePorts(ctx context.Context, cacheNode *v1alpha1.CacheNode) error {
	for _, s := range cacheNode.Spec.Origin.Servers {
		if s.Service == nil {
			continue
		}
		service, _, err := r.services.get(ctx, serviceOf(s, cacheNode.Namespace))
		if err != nil {
			return err
		}
		if port, ok := service.Ports[s.Service.Port]; ok {
			s.Service.Port = port
		}
	}
	return nil
}

func referenceKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// unmet describes the objects that a valid spec refers to and that do not exist. They may be created later. The
// storage state may be nil if it is not known.
func (r references) unmet(ctx context.Context, cacheNode *v1alpha1.CacheNode, s *storage.State) (list []string) {
	for i, server := range sites.Own(cacheNode.Spec).Origin.Servers {
		if server.Service == nil {
			continue
		}
		key := serviceOf(server, cacheNode.Namespace)
		_, found, err := r.services.get(ctx, key)
		if !found && err == nil && watches(r.services.watched, key.Namespace) { // otherwise, it may exist
			list = append(list, fmt.Sprintf("spec.origin.servers[%d].service: "+
				"Service %q in namespace %q does not exist, so requests to it get 502: create it, or name another",
				i, key.Name, key.Namespace))
		}
	}
	if s == nil {
		return list
	}
	for i, d := range cacheNode.Spec.Disks {
		class := ptr.Deref(d.StorageClassName, "")
		if class != "" && s.Classes[class] == nil && !s.IsBound(d.Name) {
			list = append(list, fmt.Sprintf("spec.disks[%d].storageClassName: "+
				"StorageClass %q does not exist, so the claims for %s stay pending: "+
				"create it, or replace the disk by one of another class",
				i, class, d.Name))
		}
	}
	return list
}

// referenceSources returns watches of the metadata of Secrets and ConfigMaps, and of Services and EndpointSlices. The
// operator reads the content of a Secret or a ConfigMap only if a CacheNode names it.
func (r *CacheNodeReconciler) referenceSources(references cache.Cache) (sources []source.Source) {
	referrers := func(kind string, name func(client.Object) types.NamespacedName) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return r.referrers(ctx, kind, name(o))
		})
	}
	for _, kind := range []string{"Secret", "ConfigMap"} {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		sources = append(sources,
			source.Kind[client.Object](references, object, referrers(kind, client.ObjectKeyFromObject)))
	}
	byLabel := func(o client.Object) types.NamespacedName {
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[discoveryv1.LabelServiceName]}
	}
	other := predicate.Funcs{UpdateFunc: isOtherReference}
	sources = append(sources,
		source.Kind[client.Object](references, &corev1.Service{}, referrers("Service", client.ObjectKeyFromObject), other))
	if r.Endpoints {
		sources = append(sources,
			source.Kind[client.Object](references, &discoveryv1.EndpointSlice{}, referrers("Service", byLabel), other))
	}
	return sources
}

func (r *CacheNodeReconciler) referrers(
	ctx context.Context, kind string, name types.NamespacedName,
) []reconcile.Request {
	cacheNodes := &v1alpha1.CacheNodeList{}
	referring := client.MatchingFields{referenceIndex: referenceKey(kind, name.Namespace, name.Name)}
	if err := r.List(ctx, cacheNodes, referring); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range cacheNodes.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&cacheNodes.Items[i])})
	}
	return requests
}
