// Package reader reads the State from which package storage plans. It decides nothing: [storage.State.Needs] says what
// to read in addition to what every plan needs. It imports storage, naming and Kubernetes' types. If a plan depends on
// another kind of object, read these objects here.
package reader

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// Reader reads for one CacheNode. It is safe for concurrent use.
type Reader struct {
	// Cache reads from the informer cache. Live reads from the API server.
	Cache, Live client.Reader
	// Own selects the claims and volumes of the CacheNode in the cache. Scouts selects its scouts and their claims.
	Own, Scouts client.ListOption
}

// Read adds to a state what every plan needs: nodes, classes, and the claims, volumes and scouts of the CacheNode.
func (r Reader) Read(ctx context.Context, s *storage.State) error {
	return r.read(ctx, s, r.Cache, r.Own, r.Own)
}

// More adds to a state what its plan needs in addition, from the API server. After an error, the state contains what
// was read before the error.
func (r Reader) More(ctx context.Context, s *storage.State) error {
	for needs := s.Needs(); !needs.None(); needs = s.Needs() {
		if err := r.more(ctx, s, needs); err != nil {
			return err
		}
	}
	return nil
}

// read reads what every plan needs. It does not copy the nodes and classes of the informer cache, so nobody may change
// these objects. A copy for every CacheNode would cost more than everything else.
func (r Reader) read(
	ctx context.Context, s *storage.State, from client.Reader, ownClaims, ownVolumes client.ListOption,
) error {
	namespace := client.InNamespace(s.CacheNode.Namespace)
	nodes, claims, volumes := &corev1.NodeList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{}
	if err := from.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	if err := from.List(ctx, claims, namespace, ownClaims); err != nil {
		return err
	}
	if err := from.List(ctx, volumes, ownVolumes); err != nil {
		return err
	}
	s.Nodes, s.Claims = nodes.Items, claims.Items
	s.Volumes = map[string]*corev1.PersistentVolume{}
	for i := range volumes.Items {
		s.Volumes[volumes.Items[i].Name] = &volumes.Items[i]
	}
	if err := r.scouts(ctx, s); err != nil {
		return err
	}
	classes := &storagev1.StorageClassList{}
	if err := r.Cache.List(ctx, classes, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	s.Classes = map[string]*storagev1.StorageClass{}
	for i := range classes.Items {
		s.Classes[classes.Items[i].Name] = &classes.Items[i]
	}
	if s.AreAllReady() {
		return nil // no volume is missing, so the foreign volumes need not be read
	}
	return r.foreignVolumes(ctx, s)
}

func (r Reader) scouts(ctx context.Context, s *storage.State) error {
	pods, claims := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}
	if err := r.Cache.List(ctx, pods, r.Scouts); err != nil {
		return err
	}
	if err := r.Cache.List(ctx, claims, r.Scouts); err != nil {
		return err
	}
	s.Scouts = storage.Scouts{Pods: pods.Items, Claims: claims.Items}
	return nil
}

// foreignVolumes reads the volumes that are bound to claims of this CacheNode and that are not in the state yet,
// because the operator has not created them. These volumes are not watched.
func (r Reader) foreignVolumes(ctx context.Context, s *storage.State) error {
	for i := range s.Claims {
		name := s.Claims[i].Spec.VolumeName
		if name == "" || s.Volumes[name] != nil {
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
		s.Volumes[name] = volume
	}
	return nil
}

func (r Reader) more(ctx context.Context, s *storage.State, needs storage.Needs) error {
	if needs.Fresh {
		if err := r.fresh(ctx, s); err != nil {
			return err
		}
	}
	if needs.All {
		all := &corev1.PersistentVolumeList{}
		if err := r.Live.List(ctx, all); err != nil {
			return err
		}
		s.All = append([]corev1.PersistentVolume{}, all.Items...)
	}
	if len(needs.Events) > 0 && s.Events == nil {
		s.Events = map[string][]corev1.Event{}
	}
	for _, name := range needs.Events {
		if err := r.events(ctx, s, name); err != nil {
			return err
		}
	}
	return nil
}

// fresh reads nodes, pods, claims and volumes from the API server.
func (r Reader) fresh(ctx context.Context, s *storage.State) error {
	labels := naming.PodSelector(s.CacheNode.Name)
	pods := &corev1.PodList{}
	err := r.Live.List(ctx, pods, client.InNamespace(s.CacheNode.Namespace), client.MatchingLabels(labels))
	if err != nil {
		return err
	}
	s.Pods, s.Fresh = storage.CachePods(pods.Items), true
	volumes := maps.Clone(labels)
	volumes[naming.LabelNamespace] = s.CacheNode.Namespace
	return r.read(ctx, s, r.Live, client.MatchingLabels(labels), client.MatchingLabels(volumes))
}

// events reads a pod that does not start, with the states of its containers, and the events about this pod.
func (r Reader) events(ctx context.Context, s *storage.State, name string) error {
	s.Events[name] = nil
	pod := &corev1.Pod{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.CacheNode.Namespace, Name: name}, pod)
	if apierrors.IsNotFound(err) { // the cache lags behind
		s.Pods = slices.DeleteFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == name })
		return nil
	}
	if err != nil {
		return err
	}
	for i := range s.Pods {
		if s.Pods[i].Name == name {
			s.Pods[i] = *pod
		}
	}
	events := &corev1.EventList{}
	about := client.MatchingFields{"involvedObject.uid": string(pod.UID)}
	if err := r.Live.List(ctx, events, client.InNamespace(pod.Namespace), about); err != nil {
		return err
	}
	s.Events[name] = events.Items
	return nil
}
