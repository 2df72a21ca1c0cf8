package controllers

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/rollout"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// pass is the state of one pass over a CacheNode. The comment of a field names the phase that sets it.
type pass struct {
	// cacheNode is the object as it was read; no phase changes it.
	cacheNode *v1alpha1.CacheNode
	// now is the time of the pass; began is when this operator started.
	now, began time.Time
	// after is the time until the next pass if no event comes; 0 means that none is planned. Any phase may shorten it.
	after time.Duration
	// lasting is carried from one pass to the next.
	lasting lasting

	observed
	wanted
	rolling

	// storage is the state that actions were planned from. keepStorage sets it; nil means that nothing was planned.
	storage *storage.State
	// planned is true if keepStorage has read everything that the plan needs.
	planned bool
	actions storage.Actions
	// evicting says which pod waits to be evicted, and why. The executor that waits sets it.
	evicting string
	// certificates is what the Secret must contain: renewCertificates, or certify if there were none.
	certificates map[string][]byte
	// certificateError is the error of renewCertificates.
	certificateError error
	// movement is what the edit of the disks moves; nil if nothing. held is true if it must be acknowledged first.
	// holdMovement sets both.
	movement *v1alpha1.KeyMovement
	held     bool
	// unmet describes the objects that the spec refers to and that do not exist: observeReferences.
	unmet []string
	// warnings are about valid parts of the spec that are not, or only partly, carried out: followStorage.
	warnings []string
	// problem keeps the spec from being accepted or from taking effect: run.
	problem *status.Problem
}

// observed is what there was when the pass began: observe sets it. Objects of others are left out.
type observed struct {
	statefulSet *appsv1.StatefulSet
	configMap   *corev1.ConfigMap
	secret      *corev1.Secret
	// absent has the names of the objects that observe looked for and did not find.
	absent map[client.ObjectKey]bool
	pods   []corev1.Pod
	// agents has, by pod, what the agent said last of the disks of the spec. cached has, by disk, the size of the caches
	// over all pods in bytes, also for disks that are no longer in the spec.
	agents map[string]Observation
	cached map[string]int64
	// unknown is true while this operator is new and has not yet asked the agent of a ready pod. Nothing is decided until
	// then.
	unknown bool
	verbs   storage.Verbs
	offered offered
	// leaving are disks that the spec no longer has and that stay in the pods until others have filled from them. leave
	// sets it.
	leaving []v1alpha1.Disk
	// oldAgents are the pods whose agents do not know disks that leave, if that kept a disk from staying. leave sets it.
	oldAgents []string
	// complete is true if nothing failed.
	complete bool
}

// wanted is what the spec asks for.
type wanted struct {
	// effective is set by validate, caBundle by resolveOrigin.
	effective effective.CacheNode
	caBundle  string
	// certificate is the certificate of listen.tls: resolveListener; nil if there is none.
	certificate *v1alpha1.CertificateStatus
	// target and plan are set by render. plan is nil before.
	target edit.Target
	plan   *shard.Plan
}

// rolling is how the wanted revision is rolled out.
type rolling struct {
	// template, offer and decision are set by decide.
	template manifest.Template
	offer    manifest.ConfigMap
	decision *rollout.Decision
	// sharing says which pods own keys: share.
	sharing fleet.Decision
	// remaking is true while the StatefulSet is deleted so that it can be recreated: apply.
	remaking bool
}

// lasting is what one pass over an object leaves to the next: mostly the start times of states that must last before
// the operator acts on them.
type lasting struct {
	uid     types.UID
	storage storage.Since
	// failing is since when every pass has failed, late since when the informer cache has lagged behind in every pass;
	// zero if the last pass found neither.
	failing, late time.Time
	// broken are the disks whose failure an event told, and whose recovery no event has told yet.
	broken status.Disks
	// wantsVolumes is true if a volume that goes may make room for one of this CacheNode.
	wantsVolumes bool
	// told is the CacheNode with the status that was written last, until the informer cache shows it; nil if it does.
	told *v1alpha1.CacheNode
}

// lasting returns what the last pass over the same object left.
func (r *CacheNodeReconciler) lasting(cacheNode *v1alpha1.CacheNode) lasting {
	known, _ := r.since.Load(client.ObjectKeyFromObject(cacheNode))
	if l, ok := known.(lasting); ok && l.uid == cacheNode.UID {
		return l
	}
	return lasting{uid: cacheNode.UID}
}

func (p *pass) lookAgain(after time.Duration) {
	if after > 0 && (p.after == 0 || after < p.after) {
		p.after = after
	}
}

// podVolumes returns, by ordinal, the disks of each pod that is not being deleted.
func (p *pass) podVolumes() map[int][]string { return podVolumes(p.cacheNode.Name, p.pods) }
