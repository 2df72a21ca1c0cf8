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

// renewCertificates replaces the certificates of operator and agents before they expire. It runs on every pass, also if
// the spec is not accepted: the existing pods go on, and without certificates their agents fall silent.
func (r *CacheNodeReconciler) renewCertificates(ctx context.Context, p *pass) error {
	p.certificateError = r.renew(ctx, p)
	return p.certificateError
}

func (r *CacheNodeReconciler) renew(ctx context.Context, p *pass) error {
	if p.secret == nil && p.statefulSet == nil {
		return nil // nothing runs: certify creates the first ones when the spec is accepted
	}
	changed, err := p.readCertificates()
	if err != nil || !changed {
		return err
	}
	// The cache may not show the last renewal yet. A second renewal right after it would leave agents behind.
	live := &corev1.Secret{}
	key := client.ObjectKey{Namespace: p.cacheNode.Namespace, Name: naming.AgentSecret(p.cacheNode.Name)}
	err = r.Live.Get(ctx, key, live)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && isOwn(live, p.cacheNode) {
		p.secret = live
		if changed, err = p.readCertificates(); err != nil || !changed {
			return err
		}
	}
	if _, _, err := r.applier().Apply(ctx, manifest.AgentSecret(p.cacheNode, p.certificates)); err != nil {
		return err
	}
	log.FromContext(ctx).Info("renewed the certificates of the agents")
	return nil
}

// certify creates the certificates of a CacheNode that has none, and those for its pods if they begin to share keys.
func (r *CacheNodeReconciler) certify(ctx context.Context, p *pass) error {
	switch {
	case p.certificateError != nil:
		return p.certificateError
	case p.certificates == nil: // with some, the cache may not show the last renewal: see renew
		_, err := p.readCertificates()
		return err
	case p.sharesKeys() && p.certificates[naming.PeerCertificateKey] == nil:
		return r.renew(ctx, p)
	}
	return nil
}

// sharesKeys is true if the pods share the keys: by the spec or, once that is known, by the operator's choice.
func (p *pass) sharesKeys() bool {
	routing := p.cacheNode.Spec.Routing
	if p.effective.CacheNode != nil {
		routing = p.effective.Spec.Routing
	}
	return routing.Mode == v1alpha1.RoutingSharded
}

// readCertificates sets the certificates that the Secret must have; changed is false if it has them.
func (p *pass) readCertificates() (changed bool, err error) {
	var data map[string][]byte
	if p.secret != nil {
		data = p.secret.Data
	}
	certificates, renewAt, err := pki.Renew(data, naming.AgentName(p.cacheNode.Namespace, p.cacheNode.Name), p.now)
	if err != nil {
		return false, err
	}
	// A Secret that was deleted had a key: no mark from before is to be believed without one.
	isUpgrade := p.statefulSet != nil && p.secret != nil
	p.certificates, err = pki.WithOwnerKey(certificates, data, isUpgrade, p.now)
	if err != nil {
		return false, err
	}
	if p.sharesKeys() || data[naming.PeerCertificateKey] != nil {
		var peersAt time.Time
		name := naming.PeerName(p.cacheNode.Namespace, p.cacheNode.Name)
		if p.certificates, peersAt, err = pki.WithPeers(p.certificates, data, name, p.now); err != nil {
			return false, err
		}
		p.lookAgain(min(peersAt.Sub(p.now)+time.Second, renewal))
	}
	p.lookAgain(min(renewAt.Sub(p.now)+time.Second, renewal))
	for key, value := range p.certificates {
		changed = changed || !bytes.Equal(data[key], value)
	}
	return changed, nil
}
