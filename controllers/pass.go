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
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/rollout"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// pass is what one pass over a CacheNode knows. Each part says which phase sets it.
type pass struct {
	// cacheNode is as it was read; no phase changes it.
	cacheNode *v1alpha1.CacheNode
	// now is the time of the pass, began when this operator began to work.
	now, began time.Time
	// after is when to look again though nothing happens; 0 for never. Any phase may shorten it.
	after time.Duration
	// lasting is carried from pass to pass.
	lasting lasting

	observed
	wanted
	rolling

	// storage is the state that actions were planned from, nil while they were not: keepStorage. An executor that waits for
	// the disruption budget sets evicting.
	storage *storage.State
	// planned: all that the plan needs was read.
	planned  bool
	actions  storage.Actions
	evicting string
	// certificates are those that the Secret is to have: renewCertificates, or certify where there were none.
	certificates map[string][]byte
	// certificateError kept renewCertificates from finding out whether they are.
	certificateError error
	// movement is what the edit of the disks moves, nil if nothing; held: it must be acknowledged. holdMovement sets both.
	movement *v1alpha1.KeyMovement
	held     bool
	// unmet are what the spec refers to and what does not exist: observeReferences.
	unmet []string
	// warnings are about what is valid but is not, or not wholly, done: followStorage.
	warnings []string
	// problem keeps the spec from being accepted: run.
	problem *status.Problem
}

// observed is what there was when the pass began: observe sets it. What belongs to somebody else is not here.
type observed struct {
	statefulSet *appsv1.StatefulSet
	configMap   *corev1.ConfigMap
	secret      *corev1.Secret
	// absent are the names of those that were looked for and not there.
	absent map[client.ObjectKey]bool
	pods   []corev1.Pod
	// agents are what the pods' agents said last, of disks that the spec knows; used is what each disk holds over all pods,
	// also one that is no longer in the spec.
	agents map[string]Observation
	used   map[string]int64
	// unknown: a ready pod's agent has yet to be asked, as this operator is new. Nothing is decided without it.
	unknown bool
	verbs   storage.Verbs
	offered offered
}

// wanted is what the spec asks for.
type wanted struct {
	// effective: validate. caBundle: resolveOrigin.
	effective effective.CacheNode
	caBundle  string
	// target and plan: render. plan is nil before.
	target edit.Target
	plan   *shard.Plan
}

// rolling is how the wanted revision gets to the pods.
type rolling struct {
	// template, offer and decision: decide.
	template manifest.Template
	offer    manifest.ConfigMap
	decision *rollout.Decision
	// remaking: the StatefulSet is gone or going, and is created again: apply.
	remaking bool
}

// lasting is since when something is so that is acted on only if it lasts.
type lasting struct {
	storage storage.Since
	// failing is since when every pass has failed.
	failing time.Time
}

func (r *CacheNodeReconciler) lasting(uid types.UID) lasting {
	known, _ := r.since.Load(uid)
	l, _ := known.(lasting)
	return l
}

func (p *pass) lookAgain(after time.Duration) {
	if after > 0 && (p.after == 0 || after < p.after) {
		p.after = after
	}
}

// podVolumes are the disks of each pod that is not being deleted, by ordinal.
func (p *pass) podVolumes() map[int][]string { return podVolumes(p.cacheNode.Name, p.pods) }
