package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/storage"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// recover does what keeps the pods running whatever the spec says: pods on lost nodes start elsewhere, pods start without a
// disk that cannot be mounted, and disks that are back, replaced or repaired take their places.
func (r *CacheNodeReconciler) recover(ctx context.Context, s *scope) error {
	if err := r.recoverFromLoss(ctx, s); err != nil {
		return err
	}
	if err := r.replaceMissing(ctx, s); err != nil {
		return err
	}
	if err := r.offerVolumes(ctx, s); err != nil {
		return err
	}
	back, err := r.scout(ctx, s)
	if err != nil {
		return err
	}
	due, later := storage.Due(s.storage(), s.verbs, back, s.disksSince(isFailed))
	s.lookAgain(later)
	for _, release := range due {
		if err := r.release(ctx, s, release); err != nil {
			return err
		}
	}
	return nil
}

// recoverFromLoss decides twice: what is about to be deleted is looked at again on the API server itself. An operator that
// cannot reach it deletes nothing.
func (r *CacheNodeReconciler) recoverFromLoss(ctx context.Context, s *scope) error {
	loss := storage.Lost(s.storage())
	if len(loss.Releases) > 0 {
		if err := r.readAgain(ctx, s); err != nil {
			return err
		}
		loss = storage.Lost(s.storage())
	}
	s.loss = loss.Waiting
	s.lookAgain(loss.After)
	for _, release := range loss.Releases {
		if err := r.release(ctx, s, release); err != nil {
			return err
		}
	}
	return nil
}

// readAgain reads nodes, pods, claims and volumes from the API server.
func (r *CacheNodeReconciler) readAgain(ctx context.Context, s *scope) error {
	labels := naming.PodSelector(s.node.Name)
	pods := &corev1.PodList{}
	if err := r.Live.List(ctx, pods, client.InNamespace(s.node.Namespace), client.MatchingLabels(labels)); err != nil {
		return err
	}
	s.pods = cachePods(pods.Items)
	volumes := maps.Clone(labels)
	volumes[naming.LabelNamespace] = s.node.Namespace
	if err := s.readStorage(ctx, r.Live, client.MatchingLabels(labels), client.MatchingLabels(volumes)); err != nil {
		return err
	}
	return r.readForeignVolumes(ctx, s)
}

// replaceMissing lets pods start without the disks that keep them from it, and has placeholders for disks that were not
// mounted when their pods started, so that scouts can tell when they are.
func (r *CacheNodeReconciler) replaceMissing(ctx context.Context, s *scope) error {
	patience := tuning.Duration(s.node.Spec.Disruption.DiskLossAfter)
	for i := range s.pods {
		stuck, after := storage.Stuck(&s.pods[i], patience, s.now)
		s.lookAgain(after)
		if !stuck {
			continue
		}
		s.lookAgain(silence) // events are not watched
		if err := r.startWithout(ctx, s, &s.pods[i]); err != nil {
			return err
		}
	}
	bare, after := storage.Bare(s.storage(), s.disksSince(isUnmounted), patience)
	s.lookAgain(after)
	for _, key := range bare {
		i := slices.IndexFunc(s.pods, func(p corev1.Pod) bool { return p.Name == key.Pod && p.DeletionTimestamp.IsZero() })
		if i < 0 {
			continue
		}
		why := map[string]string{key.Disk: "its folder is there and nothing was mounted on it when the pod started"}
		if err := r.doWithout(ctx, s, &s.pods[i], why, true); err != nil {
			return err
		}
	}
	s.missing = storage.MissingDisks(s.storage())
	return nil
}

// startWithout lets a pod start without the disks that it waits for.
func (r *CacheNodeReconciler) startWithout(ctx context.Context, s *scope, cached *corev1.Pod) error {
	pod := &corev1.Pod{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	events := &corev1.EventList{}
	if err := r.Live.List(ctx, events, client.InNamespace(pod.Namespace), client.MatchingFields{"involvedObject.uid": string(pod.UID)}); err != nil {
		return err
	}
	claims := s.storage().ClaimsOf(pod.Name)
	return r.doWithout(ctx, s, pod, storage.Blamed(pod, claims, events.Items, s.now), false)
}

// doWithout puts placeholders in the place of disks of a pod, and has the pod made anew. evict: the pod serves.
func (r *CacheNodeReconciler) doWithout(ctx context.Context, s *scope, pod *corev1.Pod, disks map[string]string, evict bool) error {
	state := s.storage()
	node := state.Host(pod.Spec.NodeName)
	if node == nil {
		return nil
	}
	claims := state.ClaimsOf(pod.Name)
	release := storage.Release{Pod: pod.Name, Reason: "DiskMissing", Evict: evict}
	for _, disk := range slices.Sorted(maps.Keys(disks)) {
		claim := claims[disk]
		volume := s.volumes[claim.Spec.VolumeName]
		if storage.IsPlaceholder(claim) || volume == nil || storage.HostOf(volume) == "" {
			continue // a volume that is tied to no node may only be on its way
		}
		if err := r.applyPlaceholder(ctx, s, claim, disk, node); err != nil {
			return err
		}
		release.Claims = append(release.Claims, claim.Name)
		if release.Note != "" {
			release.Note += "; "
		}
		release.Note += fmt.Sprintf("%s of %s cannot be mounted on %s, the pod starts without: %s", disk, pod.Name, node.Name, truncated(disks[disk], 300))
	}
	if len(release.Claims) == 0 {
		return nil
	}
	return r.release(ctx, s, release)
}

// disksSince has the disks that the agents say something of, since when.
func (s *scope) disksSince(match func(agentapi.DiskReport) bool) map[storage.PodDisk]time.Time {
	disks := map[storage.PodDisk]time.Time{}
	for pod, seen := range s.observations {
		for _, d := range seen.Report.Disks {
			if match(d) {
				disks[storage.PodDisk{Pod: pod, Disk: d.Name}] = d.Since
			}
		}
	}
	return disks
}

func isFailed(d agentapi.DiskReport) bool { return d.Status == failed }

func isUnmounted(d agentapi.DiskReport) bool { return isFailed(d) && d.Reason == unmounted }
