package controllers

import (
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/pki"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// observe finds what is there: StatefulSet, pods, and what the pods' agents said last. It comes first, so that the status
// tells of the pods also while a spec is refused.
func (r *CacheNodeReconciler) observe(ctx context.Context, s *scope) error {
	get := r.getOnce(s)
	set := &appsv1.StatefulSet{}
	switch err := get(ctx, client.ObjectKeyFromObject(s.node), set); {
	case err == nil && isOwn(set, s.node):
		s.statefulSet = set
	case err == nil: // somebody else's of that name: apply says so
	case !apierrors.IsNotFound(err):
		return err
	}
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, byInstance(s.node)); err != nil {
		return err
	}
	s.pods = cachePods(pods.Items)
	secret := &corev1.Secret{}
	switch err := get(ctx, client.ObjectKey{Namespace: s.node.Namespace, Name: naming.AgentSecret(s.node.Name)}, secret); {
	case err == nil && isOwn(secret, s.node):
		s.secret = secret
	case err == nil: // as above
	case !apierrors.IsNotFound(err):
		return err
	}
	if err := r.observeStorage(ctx, s); err != nil {
		return err
	}
	s.observations = r.track(s)
	for i := range s.pods {
		seen := s.observations[s.pods[i].Name]
		if !isReady(&s.pods[i]) || !seen.Answered.IsZero() && seen.Err == nil {
			continue
		}
		// Soon it has answered, or is silent.
		s.lookAgain(max(silence-s.now.Sub(seen.Tracked), 0) + time.Second)
		s.unknown = s.unknown || (seen.Answered.IsZero() && seen.Err == nil && s.now.Sub(seen.Tracked) < 2*readTimeout)
	}
	return nil
}

// cachePods are sorted by name. One that the kubelet has ended is as good as gone: the StatefulSet controller makes it anew.
func cachePods(pods []corev1.Pod) []corev1.Pod {
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// isOwn is true for an object that the CacheNode controls, or that has lost its controller and was applied by us. One of the same
// name may still be there of a CacheNode that was deleted.
func isOwn(object client.Object, cacheNode *v1alpha1.CacheNode) bool {
	controller := metav1.GetControllerOf(object)
	return metav1.IsControlledBy(object, cacheNode) || (controller == nil && object.GetAnnotations()[naming.AnnotationApplied] != "")
}

// track has the agents of the pods read, and returns what they said last, of disks that the spec knows.
func (r *CacheNodeReconciler) track(s *scope) map[string]Observation {
	name := client.ObjectKeyFromObject(s.node)
	var targets []Target
	for i := range s.pods {
		pod := &s.pods[i]
		if pod.DeletionTimestamp.IsZero() {
			targets = append(targets, Target{Pod: client.ObjectKeyFromObject(pod), UID: pod.UID, IP: pod.Status.PodIP})
		}
	}
	var c *agentapi.Client
	if s.secret != nil {
		c = r.Agents.client(name, s.secret)
	}
	observations := r.Agents.Track(name, c, targets)
	s.used = usedBytes(observations)
	for pod, seen := range observations {
		known := map[string]bool{}
		seen.Report.Disks = slices.DeleteFunc(slices.Clone(seen.Report.Disks), func(d agentapi.DiskReport) bool {
			strange := known[d.Name] || !slices.ContainsFunc(s.node.Spec.Disks, func(disk v1alpha1.Disk) bool { return disk.Name == d.Name })
			known[d.Name] = true
			return strange
		})
		observations[pod] = seen
	}
	return observations
}

// client is the one for the agents of a CacheNode, made anew when its certificates change; nil where they are unusable.
func (a *Agents) client(cacheNode types.NamespacedName, secret *corev1.Secret) *agentapi.Client {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if known := a.clients[cacheNode]; known.client != nil && known.version == secret.ResourceVersion {
		return known.client
	}
	config, err := pki.Client(secret.Data, naming.AgentName(cacheNode.Namespace, cacheNode.Name))
	if err != nil {
		return nil
	}
	a.clients[cacheNode] = versionedClient{client: agentapi.NewClient(config), version: secret.ResourceVersion}
	return a.clients[cacheNode].client
}

func isReady(pod *corev1.Pod) bool { return storage.IsReady(pod) }
