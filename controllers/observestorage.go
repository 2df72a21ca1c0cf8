package controllers

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// observeStorage finds the nodes of the cluster, and the claims and volumes of the CacheNode.
func (r *CacheNodeReconciler) observeStorage(ctx context.Context, s *scope) error {
	s.verbs = storage.ReadVerbs(s.node)
	if err := s.readStorage(ctx, r.Client, byInstance(s.node), byInstance(s.node)); err != nil {
		return err
	}
	if s.areAllReady() {
		return nil // then no volume is missing, and those of others need not be read
	}
	return r.readForeignVolumes(ctx, s)
}

// readStorage reads nodes and, of this CacheNode, claims and volumes. Nobody may change the nodes: where they come from the
// cache they are the cache's own, as a copy of each for every CacheNode costs more than all else.
func (s *scope) readStorage(ctx context.Context, from client.Reader, ownClaims, ownVolumes client.ListOption) error {
	nodes, claims, volumes := &corev1.NodeList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}
	if err := from.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	if err := from.List(ctx, claims, client.InNamespace(s.node.Namespace), ownClaims); err != nil {
		return err
	}
	if err := from.List(ctx, volumes, ownVolumes); err != nil {
		return err
	}
	s.hosts, s.claims = nodes.Items, claims.Items
	s.volumes = map[string]*corev1.PersistentVolume{}
	for i := range volumes.Items {
		s.volumes[volumes.Items[i].Name] = &volumes.Items[i]
	}
	return nil
}

// readForeignVolumes reads the volumes of the claims that the operator has not made. They are not watched.
func (r *CacheNodeReconciler) readForeignVolumes(ctx context.Context, s *scope) error {
	for i := range s.claims {
		name := s.claims[i].Spec.VolumeName
		if name == "" || s.volumes[name] != nil {
			continue
		}
		volume := &corev1.PersistentVolume{}
		err := r.Live.Get(ctx, client.ObjectKey{Name: name}, volume)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		s.volumes[name] = volume
	}
	return nil
}

// areAllReady is true when every wanted pod is there and ready.
func (s *scope) areAllReady() bool {
	state := s.storage()
	for ordinal := range replicasOf(s.node) {
		i := slices.IndexFunc(state.Pods, func(p corev1.Pod) bool { return p.Name == naming.Pod(s.node.Name, ordinal) })
		if i < 0 || !isReady(&state.Pods[i]) {
			return false
		}
	}
	return true
}

// storage is what package storage decides from.
func (s *scope) storage() storage.State {
	return storage.State{CacheNode: s.node, Now: s.now, Nodes: s.hosts, Pods: s.pods, Claims: s.claims, Volumes: s.volumes}
}
