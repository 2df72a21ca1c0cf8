package controllers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage"
	"github.com/cachenode/cachenode-operator/internal/storage/executor"
)

// pathAgain is how long a pass waits before it looks again for a free path. A volume of this operator that goes causes
// a pass at once, and so does a node; only the volumes of others are not watched.
const pathAgain = 10 * time.Minute

// keepStorage does what keeps the pods running, whatever the spec says. Pods on lost nodes start elsewhere, pods start
// without a disk that cannot be mounted, and disks that are back, replaced or repaired are used again.
func (r *CacheNodeReconciler) keepStorage(ctx context.Context, p *pass) error {
	err := r.planStorage(ctx, p)
	if p.storage == nil {
		return err
	}
	p.planned = err == nil
	return errors.Join(err, r.execute(p, func(e *executor.Executor) error { return e.Keep(ctx, p.actions.Keep) }))
}

// execute calls do with an executor, and notes what the executor waits for.
func (r *CacheNodeReconciler) execute(p *pass, do func(*executor.Executor) error) error {
	e := executor.Executor{Client: r.Client, Live: r.Live, Events: r.Events, CacheNode: p.cacheNode}
	err := do(&e)
	p.lookAgain(e.After)
	if e.Waiting != "" {
		p.evicting = e.Waiting
	}
	return err
}

// planStorage plans, and reads what the plan needs. Objects that are about to be deleted are read again from the API
// server, so an operator that cannot reach it deletes nothing.
func (r *CacheNodeReconciler) planStorage(ctx context.Context, p *pass) error {
	s := &storage.State{
		CacheNode: p.withLeaving(), Now: p.now, Pods: p.pods, Verbs: p.verbs, Since: p.lasting.storage,
		Disks:   p.diskReports(),
		Allowed: r.Cluster.Policy.AllowsLocalPath, MaxVolumes: r.Cluster.MaxVolumes,
		Scout: manifest.ScoutImage{Image: r.Cluster.AgentImage, PullPolicy: r.Cluster.AgentPullPolicy},
	}
	own := byInstance(p.cacheNode)
	if err := r.readStorage(ctx, s, r.Client, own, own); err != nil {
		return err
	}
	var err error
	for needs := s.Needs(); err == nil && !needs.None(); needs = s.Needs() {
		err = r.readMore(ctx, s, needs)
	}
	p.storage, p.pods, p.actions = s, s.Pods, storage.Plan(*s)
	if err != nil { // the pass goes on with what was read, but deletes nothing by force
		p.actions.Keep.Releases = slices.DeleteFunc(p.actions.Keep.Releases, func(r storage.Release) bool {
			return r.Force && !s.Fresh
		})
	}
	p.lasting.storage = p.actions.Since
	p.lookAgain(p.actions.After)
	return err
}

// readStorage reads nodes, classes, and the claims, volumes and scouts of this CacheNode. Nobody may change the nodes
// and classes. They are the cache's own objects, because a copy of each for every CacheNode would cost more than all
// else.
func (r *CacheNodeReconciler) readStorage(
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
	if err := r.readScouts(ctx, s); err != nil {
		return err
	}
	classes := &storagev1.StorageClassList{}
	if err := r.List(ctx, classes, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	s.Classes = map[string]*storagev1.StorageClass{}
	for i := range classes.Items {
		s.Classes[classes.Items[i].Name] = &classes.Items[i]
	}
	if s.AreAllReady() {
		return nil // no volume is missing, so those of others need not be read
	}
	return r.readForeignVolumes(ctx, s)
}

func (r *CacheNodeReconciler) readScouts(ctx context.Context, s *storage.State) error {
	pods, claims := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}
	if err := r.List(ctx, pods, byScoutsOf(s.CacheNode)); err != nil {
		return err
	}
	if err := r.List(ctx, claims, byScoutsOf(s.CacheNode)); err != nil {
		return err
	}
	s.Scouts = storage.Scouts{Pods: pods.Items, Claims: claims.Items}
	return nil
}

// readForeignVolumes reads the volumes of this CacheNode's claims that the operator has not created. They are not
// watched.
func (r *CacheNodeReconciler) readForeignVolumes(ctx context.Context, s *storage.State) error {
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

// readMore reads what a plan needs from the API server itself.
func (r *CacheNodeReconciler) readMore(ctx context.Context, s *storage.State, needs storage.Needs) error {
	if needs.Fresh {
		if err := r.readFresh(ctx, s); err != nil {
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
		if err := r.readEvents(ctx, s, name); err != nil {
			return err
		}
	}
	return nil
}

// readFresh reads nodes, pods, claims and volumes from the API server.
func (r *CacheNodeReconciler) readFresh(ctx context.Context, s *storage.State) error {
	labels := naming.PodSelector(s.CacheNode.Name)
	pods := &corev1.PodList{}
	err := r.Live.List(ctx, pods, client.InNamespace(s.CacheNode.Namespace), client.MatchingLabels(labels))
	if err != nil {
		return err
	}
	s.Pods, s.Fresh = cachePods(pods.Items), true
	volumes := maps.Clone(labels)
	volumes[naming.LabelNamespace] = s.CacheNode.Namespace
	return r.readStorage(ctx, s, r.Live, client.MatchingLabels(labels), client.MatchingLabels(volumes))
}

// readEvents reads a pod that does not start, including what its containers wait for, and the events about it.
func (r *CacheNodeReconciler) readEvents(ctx context.Context, s *storage.State, name string) error {
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

// diskReports returns the disks that are not healthy, as the agents report them.
func (p *pass) diskReports() map[storage.PodDisk]storage.Report {
	disks := map[storage.PodDisk]storage.Report{}
	for pod, seen := range p.agents {
		for _, d := range seen.Report.Disks {
			if d.State != v1alpha1.DiskHealthy {
				disks[storage.PodDisk{Pod: pod, Disk: d.Name}] = storage.Report{State: d.State, Reason: d.Reason, Since: d.Since}
			}
		}
	}
	return disks
}

// errNotPlanned ends a pass in which the storage was not planned. The cause is reported beside it.
var errNotPlanned = errors.New("what the spec asks for waits until storage is planned")

// followStorage keeps pods on the nodes that the spec allows, and creates and deletes volumes. For a new CacheNode,
// nothing is created while another volume has one of its paths. A running CacheNode goes on without the volumes on such
// nodes.
func (r *CacheNodeReconciler) followStorage(ctx context.Context, p *pass) error {
	if !p.planned {
		return errNotPlanned
	}
	follow := p.actions.Follow
	switch {
	case follow.Invalid != nil:
		return &status.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: follow.Invalid.Error(), Stalled: true}
	case follow.NoNode:
		return &status.Problem{
			Reason: v1alpha1.ReasonNoNodeMatches,
			Message: "spec.placement.perNode: no node matches spec.pod.nodeSelector and spec.pod.affinity " +
				"and has only taints that are tolerated; nothing is changed until one does",
		}
	}
	problem := volumeProblem(follow)
	if p.lasting.wantsVolumes = problem != nil; problem != nil {
		if p.statefulSet == nil {
			return problem
		}
		if follow.TooMany == "" { // Degraded tells of too many volumes
			p.warnings = append(p.warnings, problem.Message)
		}
		p.lookAgain(pathAgain)
	}
	if follow.Replicas != nil {
		if err := r.scale(ctx, p, *follow.Replicas); err != nil {
			return err
		}
	}
	return r.execute(p, func(e *executor.Executor) error { return e.Follow(ctx, follow) })
}

// volumeProblem returns what keeps volumes from being created; nil if nothing does.
func volumeProblem(follow storage.Follow) *status.Problem {
	switch {
	case len(follow.Taken) > 0:
		return &status.Problem{
			Reason: v1alpha1.ReasonPathTaken, RetryAfter: pathAgain,
			Message: status.Listed(follow.Taken) +
				": name another path, or keep the two CacheNodes on different nodes by spec.pod.nodeSelector",
		}
	case follow.TooMany != "":
		return &status.Problem{Reason: v1alpha1.ReasonTooManyVolumes, Message: follow.TooMany, RetryAfter: pathAgain}
	}
	return nil
}

// tidyClaims deletes claims that nobody needs, requests more storage for disks that grew, and sets owners.
func (r *CacheNodeReconciler) tidyClaims(ctx context.Context, p *pass) error {
	return r.execute(p, func(e *executor.Executor) error { return e.TidyClaims(ctx, p.actions.Follow) })
}
