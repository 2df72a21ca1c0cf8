package controllers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// load reads the journal unless it is known already. isThere is false if there is no journal and none is needed. If
// wait is above 0, some agents have not answered, so it is not yet known whether a journal was lost.
func (r *PurgeReconciler) load(
	ctx context.Context, p *purging, j *journal,
) (isThere bool, wait time.Duration, err error) {
	cached, err := r.cachedSlots(ctx, p.cacheNode)
	if err != nil {
		return false, 0, err
	}
	last, wait := r.last(p)
	switch {
	case j.isRead && j.missing(cached) == nil:
		return j.log.Head > 0, 0, nil
	case !j.isRead && len(cached) == 0 && len(p.state.Purges) == 0 && last == 0:
		return false, wait, nil // as far as is known, no journal was ever needed
	}
	stored, err := r.storedSlots(ctx, p.cacheNode)
	if err != nil {
		return false, 0, err
	}
	if j.isRead { // ConfigMaps of the journal were deleted, or the cache lags behind our own writes
		missing := j.missing(stored)
		for _, slot := range missing {
			j.versions[slot] = ""
		}
		j.log.Rewrite(missing)
		return true, 0, nil
	}
	if isWhole := j.read(ctx, stored); isWhole { // no restart at the agents' places: it could empty all caches
		j.isRead = true
		return true, 0, nil
	}
	if wait > 0 {
		return false, wait, nil
	}
	j.isRead, j.obeyed = true, nil
	if j.log.Head == 0 || j.log.Head < last {
		// The end of the journal or the whole journal is lost. The new journal begins at the highest place that an agent or
		// a purge reports. A disk at this place has missed no purge that was reported as applied.
		j.log.Restart(last)
	}
	return j.log.Head > 0, 0, r.losePlaces(ctx, p, j)
}

// losePlaces records in the statuses of purges that their places were lost with a journal. It does so before the next
// journal is written. Otherwise, readers of the next journal would mistake the lost places for the places of purges
// that have ended.
func (r *PurgeReconciler) losePlaces(ctx context.Context, p *purging, j *journal) error {
	j.lost = p.state.Unfinished(j.log.Floor)
	p.state.Lost = j.lost
	var changes []purge.Change
	for _, change := range p.waiting("its place was lost with the journal") {
		if j.lost[change.Purge.UID] {
			changes = append(changes, change)
		}
	}
	if err := r.writeAll(ctx, changes); err != nil {
		j.isRead = false
		return err
	}
	return nil
}

// cachedSlots returns the ConfigMaps of the journal that the informer cache shows, by slot.
func (r *PurgeReconciler) cachedSlots(
	ctx context.Context, cacheNode *v1alpha1.CacheNode,
) (map[int]*corev1.ConfigMap, error) {
	slots := map[int]*corev1.ConfigMap{}
	for slot := range purge.Slots {
		configMap := &corev1.ConfigMap{}
		name := client.ObjectKey{Namespace: cacheNode.Namespace, Name: naming.Purges(cacheNode.Name, slot)}
		if err := r.Get(ctx, name, configMap); err == nil {
			slots[slot] = configMap
		} else if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	return slots, nil
}

// storedSlots returns the ConfigMaps of the journal that exist on the API server, by slot.
func (r *PurgeReconciler) storedSlots(
	ctx context.Context, cacheNode *v1alpha1.CacheNode,
) (map[int]*corev1.ConfigMap, error) {
	list := &corev1.ConfigMapList{}
	err := r.Live.List(ctx, list, client.InNamespace(cacheNode.Namespace),
		client.MatchingLabels{naming.LabelInstance: cacheNode.Name})
	if err != nil {
		return nil, err
	}
	slots := map[int]*corev1.ConfigMap{}
	for i := range list.Items {
		configMap := &list.Items[i]
		for slot := range purge.Slots {
			if configMap.Name == naming.Purges(cacheNode.Name, slot) && metav1.IsControlledBy(configMap, cacheNode) {
				slots[slot] = configMap
			}
		}
	}
	return slots, nil
}

// missing returns the slots that the journal uses, but for which the parameter slots contains no ConfigMap.
func (j *journal) missing(slots map[int]*corev1.ConfigMap) (missing []int) {
	for slot, version := range j.versions {
		if version != "" && slots[slot] == nil {
			missing = append(missing, slot)
		}
	}
	return missing
}

// read reads the journal from its ConfigMaps. A damaged ConfigMap counts as lost and is overwritten. isWhole is false
// if the end of the journal may be lost.
func (j *journal) read(ctx context.Context, slots map[int]*corev1.ConfigMap) (isWhole bool) {
	var segments [purge.Slots]*purge.Segment
	var damaged []int
	j.versions = [purge.Slots]string{}
	var list []purge.Segment
	for slot, configMap := range slots {
		j.versions[slot] = configMap.ResourceVersion
		segment, err := purge.DecodeSegment(configMap.BinaryData[naming.PurgesKey])
		if err != nil {
			log.FromContext(ctx).Error(err, "a part of the journal of purges is damaged", "configMap", configMap.Name)
			damaged = append(damaged, slot)
			continue
		}
		segments[slot] = &segment
		list = append(list, segment)
	}
	j.log = purge.OpenLog(segments)
	j.log.Blank(damaged)
	return j.log.IsWhole() && len(damaged) == 0 && !purge.HasGap(list)
}

// last returns the highest place in the journal that an agent or the status of a purge contains; 0 if there is no
// place. If wait is above 0, some agents have not answered yet.
func (r *PurgeReconciler) last(p *purging) (place int64, wait time.Duration) {
	for _, cp := range p.state.Purges {
		place = max(place, cp.Status.Number)
	}
	observations := r.Agents.Observations(client.ObjectKeyFromObject(p.cacheNode))
	for i := range p.pods {
		if !p.pods[i].DeletionTimestamp.IsZero() { // its agent is no longer read
			continue
		}
		seen, known := observations[p.pods[i].Name]
		if !known || (seen.Answered.IsZero() && !seen.IsSilent(p.state.Now)) {
			return place, purge.RetryInterval
		}
		place = max(place, seen.Report.PurgeHead)
	}
	return place, 0
}

// writeLog writes the changed segments of the journal. A write fails if somebody else has written the segment since
// it was read.
func (r *PurgeReconciler) writeLog(
	ctx context.Context, cacheNode *v1alpha1.CacheNode, next *purge.Log, versions [purge.Slots]string,
) ([purge.Slots]string, error) {
	slots, segments := next.Changed()
	for i, slot := range slots {
		text, err := segments[i].Encode()
		if err != nil {
			return versions, err
		}
		configMap := manifest.Purges(cacheNode, slot, text)
		if versions[slot], err = r.writeSegment(ctx, configMap, versions[slot]); err != nil {
			return versions, err
		}
	}
	next.Written()
	return versions, nil
}

// writeSegment writes a ConfigMap over the given version and returns the new version. With version "", it creates the
// ConfigMap.
func (r *PurgeReconciler) writeSegment(
	ctx context.Context, configMap *corev1.ConfigMap, version string,
) (next string, err error) {
	if version == "" {
		err := r.Create(ctx, configMap, client.FieldOwner(naming.FieldManager))
		return configMap.ResourceVersion, err
	}
	configMap.ResourceVersion = version
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configMap)
	if err != nil {
		return "", err
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	err = r.Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(naming.FieldManager), client.ForceOwnership)
	return u.GetResourceVersion(), err
}
