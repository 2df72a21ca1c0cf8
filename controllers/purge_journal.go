package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// journal is the journal of a CacheNode as it is on the API server, and what its agents have done of it. Only one pass
// at a time uses it, but for agents, which the mutex guards.
type journal struct {
	uid types.UID
	purge.Journal
	// version is the resourceVersion of the ConfigMap; "" if it was not read, or if there is none. isRead tells the two
	// apart.
	version string
	isRead  bool
	// mustWrite is true if what is on the API server is damaged.
	mustWrite bool
	// applied is the place up to which all pods obeyed it when that was last noted. appliedAt is since when they all obey
	// a rule without an end, by its number.
	applied   int64
	appliedAt map[int64]time.Time
	compacted time.Time

	mutex  sync.Mutex
	agents map[types.UID]*agentState
}

// load reads the journal, unless it is known. isThere is false if there is none and none is needed. A wait says that it
// cannot be decided yet whether one was lost.
func (r *PurgeReconciler) load(
	ctx context.Context, p *purging, j *journal,
) (isThere bool, wait time.Duration, err error) {
	configMap := &corev1.ConfigMap{}
	name := client.ObjectKey{Namespace: p.cacheNode.Namespace, Name: naming.Purges(p.cacheNode.Name)}
	cached := r.Get(ctx, name, configMap)
	if client.IgnoreNotFound(cached) != nil {
		return false, 0, cached
	}
	last, wait := r.last(p)
	switch {
	case j.isRead && (cached == nil || j.version == ""):
		return j.Head > 0, 0, nil
	case !j.isRead && cached != nil && len(p.purges) == 0 && last == 0:
		return false, wait, nil // none was ever needed, as far as anybody knows
	}
	err = r.Live.Get(ctx, name, configMap)
	if client.IgnoreNotFound(err) != nil {
		return false, 0, err
	}
	if err == nil && metav1.IsControlledBy(configMap, p.cacheNode) {
		if j.read(ctx, configMap) {
			return true, 0, nil
		}
	} else if j.version = ""; j.isRead { // somebody has deleted it: it is written again
		return true, 0, nil
	}
	if wait > 0 {
		return false, wait, nil
	}
	// Disks that are at the last place that anybody knows have missed nothing that was said to be applied. What had not
	// ended is done once more.
	j.Journal, j.isRead, j.appliedAt = purge.Journal{Floor: last, Head: last}, true, nil
	for i := range p.purges {
		if !isFinished(&p.purges[i]) {
			p.purges[i].Status.Number = 0
		}
	}
	return last > 0, 0, nil
}

// read takes the journal of a ConfigMap, unless it is known already. It returns false for a damaged one.
func (j *journal) read(ctx context.Context, configMap *corev1.ConfigMap) bool {
	if j.isRead && configMap.ResourceVersion == j.version {
		return true // the cache is behind our own write
	}
	j.version = configMap.ResourceVersion
	journal, err := purge.Decode(configMap.BinaryData[naming.PurgesKey])
	if err != nil {
		log.FromContext(ctx).Error(err, "the journal of purges is damaged: another one replaces it")
		j.isRead, j.mustWrite = false, true
		return false
	}
	j.Journal, j.isRead = journal, true
	return true
}

// last is the last place that agents and purges know; 0 if there was no journal. A wait says that some agents have not
// answered yet.
func (r *PurgeReconciler) last(p *purging) (place int64, wait time.Duration) {
	for _, cp := range p.purges {
		place = max(place, cp.Status.Number)
	}
	observations := r.Agents.observations(client.ObjectKeyFromObject(p.cacheNode))
	for i := range p.pods {
		if !p.pods[i].DeletionTimestamp.IsZero() { // its agent is no longer read
			continue
		}
		seen, known := observations[p.pods[i].Name]
		if !known || (seen.Answered.IsZero() && !seen.isSilent(p.now)) {
			return 0, behindInterval
		}
		place = max(place, seen.Report.PurgeHead)
	}
	return place, 0
}

// observations are what the agents of a CacheNode's pods said last.
func (a *Agents) observations(cacheNode types.NamespacedName) map[string]Observation {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	list := map[string]Observation{}
	for pod := range a.pods[cacheNode] {
		list[pod.Name] = a.known[pod].Observation
	}
	return list
}

// commit gives new purges a place, gives those an end that have been applied for the grace period, and forgets old
// ones. All of that is one write, which fails if another operator has written meanwhile.
func (r *PurgeReconciler) commit(ctx context.Context, p *purging, j *journal) error {
	next := purge.Journal{Floor: j.Floor, Head: j.Head, Rules: append([]purge.Rule{}, j.Rules...)}
	if p.now.Sub(j.compacted) > compactInterval || next.Size() > journalBytes {
		next.Compact(p.now.Add(-journalAge), journalBytes, j.applied)
		j.compacted = p.now
	}
	j.seal(&next, p)
	j.admit(&next, p)
	if next.Head == j.Head && next.Floor == j.Floor && !j.mustWrite && (j.version != "" || j.Head == 0) {
		return nil
	}
	text, err := next.Encode()
	if err != nil {
		return err
	}
	version, err := r.writeJournal(ctx, p.cacheNode, text, j.version)
	if err != nil {
		j.isRead = false // somebody else has written it, or we do not know
		return err
	}
	j.Journal, j.version, j.mustWrite = next, version, false
	return nil
}

// admit gives places to the purges that have none.
func (j *journal) admit(next *purge.Journal, p *purging) {
	known := map[string]bool{}
	for _, r := range next.Rules {
		known[r.UID] = true
	}
	for i := range p.purges {
		cp := &p.purges[i]
		if cp.Status.Number != 0 && cp.Status.Number > j.Floor && !known[string(cp.UID)] && !isFinished(cp) {
			cp.Status.Number = 0 // its place was lost with a journal
		}
		if cp.Status.Number != 0 || known[string(cp.UID)] || isFinished(cp) || !cp.DeletionTimestamp.IsZero() {
			continue
		}
		t := target(cp.Spec)
		if err := t.Check(p.cacheNode.Spec.Cache); err != nil {
			p.refused[cp.UID] = "spec." + err.Error()
			continue
		}
		r := purge.Rule{UID: string(cp.UID), Name: cp.Name, Soft: cp.Spec.Mode == v1alpha1.PurgeSoft, Target: t}
		switch {
		case r.Size() > journalBytes:
			p.refused[cp.UID] = fmt.Sprintf("spec: has %d bytes of URLs and others, at most %d are possible: "+
				"create several CachePurges", r.Size(), journalBytes)
		case next.Size()+r.Size() > journalBytes:
			p.waiting[cp.UID] = "the journal is full until the purges in it have settled"
		default:
			next.Add(p.now, r)
		}
	}
}

// mayEnd is true if a rule has been applied for the grace period.
func (j *journal) mayEnd(p *purging) bool {
	for number := range j.appliedAt {
		if j.isDue(p, number) {
			return true
		}
	}
	return false
}

func (j *journal) isDue(p *purging, number int64) bool {
	at, isApplied := j.appliedAt[number]
	return isApplied && !p.now.Before(at.Add(tuning.PurgeGrace(p.cacheNode.Spec)))
}

// seal gives an end to the rules that have been applied for the grace period, if all agents have confirmed right now
// that they still obey them. A pod that does not could give what it has to another one.
func (j *journal) seal(next *purge.Journal, p *purging) {
	if !j.isConfirmed(p) {
		return
	}
	for _, r := range j.Rules {
		if r.Until.IsZero() && j.isDue(p, r.Number) {
			next.Seal(p.now, r.Number, p.now)
		}
	}
}

// note notes what all pods have applied, and since when.
func (j *journal) note(p *purging, pods []purge.Pod) {
	j.applied = purge.Applied(pods, j.Head)
	before := j.appliedAt
	j.appliedAt = map[int64]time.Time{}
	for _, r := range j.Rules {
		if !r.Until.IsZero() || j.applied < r.Number {
			continue
		}
		j.appliedAt[r.Number] = p.now
		if at, known := before[r.Number]; known {
			j.appliedAt[r.Number] = at
		}
	}
}

// due is when something is to be done next.
func (j *journal) due(p *purging) time.Duration {
	due := compactInterval
	if len(j.Rules) > 0 {
		due = journalInterval
	}
	if j.isBehind(p) {
		due = behindInterval
	}
	for _, at := range j.appliedAt {
		left := at.Add(tuning.PurgeGrace(p.cacheNode.Spec)).Sub(p.now)
		if left <= 0 { // an agent has not confirmed it
			left = behindInterval / 4
		}
		due = min(due, left)
	}
	return due
}

// writeJournal writes the journal over a version, and returns the next version. "" is the version of none.
func (r *PurgeReconciler) writeJournal(
	ctx context.Context, cacheNode *v1alpha1.CacheNode, text []byte, version string,
) (next string, err error) {
	configMap := manifest.Purges(cacheNode, text)
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
