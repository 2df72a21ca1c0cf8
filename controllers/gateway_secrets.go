package controllers

import (
	"context"
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// strippedSecret is the type of a stripped Secret. It differs from the type of all Secrets in the cluster that are
// read, so a Secret cannot pass for a stripped one.
const strippedSecret corev1.SecretType = "cachenode.io/certificate" //nolint:gosec // no credential

// The keys of a stripped Secret.
const (
	certificateKey  = "pem"
	certificateFlaw = "problem"
)

// CertificateOptions returns the options for a cache of the Secrets of type kubernetes.io/tls. namespaces are the
// namespaces that the operator watches.
func CertificateOptions(mgr ctrl.Manager, namespaces map[string]cache.Config) cache.Options {
	return cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultNamespaces: namespaces,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {
				Field: fields.OneTermEqualSelector("type", string(corev1.SecretTypeTLS)), Transform: stripSecret,
			},
		},
	}
}

// stripSecret keeps only the certificate and the key of a Secret. The certificate is checked here, once for each change
// of the Secret, because that takes too long for each pass.
func stripSecret(object any) (any, error) {
	secret, ok := object.(*corev1.Secret)
	if !ok || secret.Type == strippedSecret { // the informer may strip an object twice
		return object, nil
	}
	c := gateways.NewCertificate(secret)
	secret.ObjectMeta, secret.Type = strippedMeta(secret, nil), strippedSecret
	secret.Data = map[string][]byte{certificateKey: c.PEM}
	if c.Problem != "" {
		secret.Data = map[string][]byte{certificateFlaw: []byte(c.Problem)}
	}
	return secret, nil
}

// readCertificates adds the certificates to which listeners refer.
func (r *GatewayReconciler) readCertificates(ctx context.Context, state *gateways.State) error {
	names := state.CertificateRefs()
	r.referred.set(state.Fleet.NamespacedName, secretKind, names)
	for _, name := range names {
		if !r.watches(name.Namespace) {
			continue
		}
		secret := &corev1.Secret{}
		if err := r.Certificates.Get(ctx, name, secret); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		state.Certificates[name] = gateways.Certificate{
			PEM: secret.Data[certificateKey], Problem: string(secret.Data[certificateFlaw]),
		}
	}
	return nil
}

// readDelivered adds the data of the Secrets from which the pods get certificates.
func (r *GatewayReconciler) readDelivered(
	ctx context.Context, cacheNode *v1alpha1.CacheNode, state *gateways.State,
) error {
	for slot := range naming.CertificatesSlots {
		name := client.ObjectKey{Namespace: cacheNode.Namespace, Name: naming.Certificates(cacheNode.Name, slot)}
		secret := &corev1.Secret{}
		if err := r.Get(ctx, name, secret); client.IgnoreNotFound(err) != nil {
			return err
		}
		if !isOwn(secret, cacheNode) {
			secret.Data = nil
		}
		state.Delivered = append(state.Delivered, secret.Data)
	}
	return nil
}

// deliver writes the Secrets from which the pods get certificates. An empty Secret is not created.
func (r *GatewayReconciler) deliver(
	ctx context.Context, cacheNode *v1alpha1.CacheNode, state gateways.State, result gateways.Result,
) error {
	var errs []error
	for slot, data := range result.Certificates {
		if maps.EqualFunc(data, state.Delivered[slot], func(a, b []byte) bool { return string(a) == string(b) }) {
			continue
		}
		_, _, err := (apply.Applier{Client: r.Client, Live: r.Live}).Apply(
			ctx, manifest.CertificatesSecret(cacheNode, slot, data))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
