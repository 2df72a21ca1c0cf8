package controllers

import (
	"bytes"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/pki"
)

// renewal is the longest time between two looks at certificates.
const renewal = 12 * time.Hour

// renew replaces the certificates of operator and agents before they end. It runs on every pass, also over a spec that is
// not accepted: the pods of before run on, and without certificates their agents fall silent.
func (r *CacheNodeReconciler) renew(ctx context.Context, s *scope) error {
	if s.secret == nil && s.statefulSet == nil {
		return nil // nothing runs: certify makes the first ones when the spec is accepted
	}
	changed, err := s.readCertificates()
	if err != nil || !changed {
		return err
	}
	// The cache may not have the last renewal yet. A second one right after it would leave agents behind.
	live := &corev1.Secret{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: s.node.Namespace, Name: naming.AgentSecret(s.node.Name)}, live)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && isOwn(live, s.node) {
		s.secret = live
		if changed, err = s.readCertificates(); err != nil || !changed {
			return err
		}
	}
	if _, _, err := r.applier().Apply(ctx, manifest.AgentSecret(s.node, s.certificates)); err != nil {
		return err
	}
	log.FromContext(ctx).Info("renewed the certificates of the agents")
	return nil
}

// certify makes the certificates of a CacheNode that has none.
func (r *CacheNodeReconciler) certify(_ context.Context, s *scope) error {
	if s.certificates != nil {
		return nil
	}
	_, err := s.readCertificates()
	return err
}

// readCertificates sets the certificates that the Secret is to have; changed is false if it has them.
func (s *scope) readCertificates() (changed bool, err error) {
	var data map[string][]byte
	if s.secret != nil {
		data = s.secret.Data
	}
	certificates, renewAt, err := pki.Renew(data, naming.AgentName(s.node.Namespace, s.node.Name), s.now)
	if err != nil {
		return false, err
	}
	s.certificates, err = pki.WithOwnerKey(certificates, data, s.statefulSet != nil, s.now)
	if err != nil {
		return false, err
	}
	s.lookAgain(min(renewAt.Sub(s.now)+time.Second, renewal))
	for key, value := range s.certificates {
		changed = changed || !bytes.Equal(data[key], value)
	}
	return changed, nil
}
