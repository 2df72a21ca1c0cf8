package controllers

import (
	"bytes"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/pki"
)

// renewal is the longest time between two checks of the certificates.
const renewal = 12 * time.Hour

// certify returns the required content of the agents' Secret, and renews certificates before they expire. It does so
// even if the spec is not accepted, because without valid certificates the agents of the existing pods no longer
// answer the operator. It returns the first certificates of a CacheNode without writing them, because they are
// written together with the other objects of an accepted spec.
func (r *CacheNodeReconciler) certify(
	ctx context.Context, s scope, o observed, w wanted, out *outcome,
) (map[string][]byte, error) {
	// The spec decides whether the pods share keys. Once the operator's choice is known, that choice counts instead.
	routing := s.cacheNode.Spec.Routing
	if w.effective.CacheNode != nil {
		routing = w.effective.Spec.Routing
	}
	shares := routing.Mode == v1alpha1.RoutingSharded
	isNew := o.own.secret == nil && o.own.statefulSet == nil
	if isNew && !w.isRendered() {
		return nil, nil // no pod runs, and none may start without a configuration
	}
	certificates, changed, err := renewed(s, o, o.own.secret, shares, out)
	if err != nil || !changed || isNew {
		return certificates, err
	}
	// The informer cache may not show the last renewal yet, so the Secret is read from the API server. A second renewal
	// would be too early: agents that have not received the last certificates yet would reject the operator.
	live := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.cacheNode.Namespace, Name: naming.AgentSecret(s.cacheNode.Name)}
	err = r.Live.Get(ctx, key, live)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if err == nil && isOwn(live, s.cacheNode) {
		if certificates, changed, err = renewed(s, o, live, shares, out); err != nil || !changed {
			return certificates, err
		}
	}
	if _, _, err := r.applier().Apply(ctx, manifest.AgentSecret(s.cacheNode, certificates)); err != nil {
		return nil, err
	}
	log.FromContext(ctx).Info("renewed the certificates of the agents")
	return certificates, nil
}

// renewed returns the certificates that a Secret must contain. The Secret may be nil. changed is false if the Secret
// contains these certificates already.
func renewed(s scope, o observed, secret *corev1.Secret, shares bool, out *outcome) (
	certificates map[string][]byte, changed bool, err error,
) {
	var data map[string][]byte
	if secret != nil {
		data = secret.Data
	}
	certificates, renewAt, err := pki.Renew(data, naming.AgentName(s.cacheNode.Namespace, s.cacheNode.Name), s.now)
	if err != nil {
		return nil, false, err
	}
	// After an upgrade, the Secret exists without an owner key, and existing unsigned marks are trusted. If a running
	// CacheNode has no Secret, somebody has deleted the Secret with its key. Unsigned marks must then not be trusted.
	isUpgrade := o.own.statefulSet != nil && secret != nil
	if certificates, err = pki.WithOwnerKey(certificates, data, isUpgrade, s.now); err != nil {
		return nil, false, err
	}
	if shares || data[naming.PeerCertificateKey] != nil {
		var peersAt time.Time
		name := naming.PeerName(s.cacheNode.Namespace, s.cacheNode.Name)
		if certificates, peersAt, err = pki.WithPeers(certificates, data, name, s.now); err != nil {
			return nil, false, err
		}
		out.lookAgain(min(peersAt.Sub(s.now)+time.Second, renewal))
	}
	out.lookAgain(min(renewAt.Sub(s.now)+time.Second, renewal))
	for key, value := range certificates {
		changed = changed || !bytes.Equal(data[key], value)
	}
	return certificates, changed, nil
}
