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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/pki"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// observe reads the StatefulSet, the ConfigMap, the Secret and the pods, and what the pods' agents said last. Each
// object is read once a pass.
func (r *CacheNodeReconciler) observe(ctx context.Context, p *pass) error {
	p.absent = map[client.ObjectKey]bool{}
	name := p.cacheNode.Name
	set, configMap, secret := &appsv1.StatefulSet{}, &corev1.ConfigMap{}, &corev1.Secret{}
	for _, want := range []struct {
		object client.Object
		name   string
		found  func()
	}{
		{set, name, func() { p.statefulSet = set }},
		{configMap, naming.ConfigMap(name), func() { p.configMap = configMap }},
		{secret, naming.AgentSecret(name), func() { p.secret = secret }},
	} {
		want.object.SetNamespace(p.cacheNode.Namespace)
		want.object.SetName(want.name)
		own, err := r.find(ctx, p, want.object)
		if err != nil {
			return err
		}
		if own {
			want.found()
		}
	}
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, byInstance(p.cacheNode)); err != nil {
		return err
	}
	p.pods = cachePods(pods.Items)
	p.verbs = storage.ReadVerbs(p.cacheNode)
	p.offered = readOffered(p.configMap)
	r.track(p)
	return nil
}

// find reads an object from the cache, and from the API server if the cache does not have it. own is false for an
// object that does not exist or belongs to somebody else. The API server is not asked for the objects of a new
// CacheNode. If such an object exists after all, package apply finds out when it creates it.
func (r *CacheNodeReconciler) find(ctx context.Context, p *pass, object client.Object) (own bool, err error) {
	key := client.ObjectKeyFromObject(object)
	err = r.Get(ctx, key, object)
	if apierrors.IsNotFound(err) && p.cacheNode.Status.ObservedGeneration > 0 {
		err = r.Live.Get(ctx, key, object)
	}
	if apierrors.IsNotFound(err) {
		p.absent[key] = true
	}
	return err == nil && isOwn(object, p.cacheNode), client.IgnoreNotFound(err)
}

// isAbsent is true for an object that did not exist when the pass decided what to apply.
func (p *pass) isAbsent(object client.Object) bool {
	switch object.(type) {
	case *appsv1.StatefulSet, *corev1.ConfigMap, *corev1.Secret:
		return p.absent[client.ObjectKeyFromObject(object)]
	}
	return false
}

// cachePods returns the pods sorted by name, without those that the kubelet has ended: the StatefulSet controller
// recreates them.
func cachePods(pods []corev1.Pod) []corev1.Pod {
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// isOwn is true for an object that the CacheNode controls, and for one that we applied and that has lost its
// controller. An object with the same name may remain from a CacheNode that was deleted.
func isOwn(object client.Object, cacheNode *v1alpha1.CacheNode) bool {
	controller := metav1.GetControllerOf(object)
	return metav1.IsControlledBy(object, cacheNode) ||
		(controller == nil && object.GetAnnotations()[naming.AnnotationApplied] != "")
}

// track tells [Agents] which pods to read, and takes what their agents said last.
func (r *CacheNodeReconciler) track(p *pass) {
	name := client.ObjectKeyFromObject(p.cacheNode)
	var targets []Target
	for i := range p.pods {
		pod := &p.pods[i]
		if pod.DeletionTimestamp.IsZero() {
			targets = append(targets, Target{
				Pod: client.ObjectKeyFromObject(pod), UID: pod.UID, IP: pod.Status.PodIP, Ready: storage.IsReady(pod),
			})
		}
	}
	var c *agentclient.Client
	if p.secret != nil {
		c = r.Agents.client(name, p.secret)
	}
	p.agents = r.Agents.Track(name, c, targets)
	r.locate(p)
	p.cached = cachedBytes(p.agents)
	for i := range p.pods {
		seen := p.agents[p.pods[i].Name]
		if !storage.IsReady(&p.pods[i]) || (!seen.Answered.IsZero() && seen.Err == nil) {
			continue
		}
		// By then the agent has answered, or counts as silent.
		p.lookAgain(max(silence-p.now.Sub(seen.Tracked), 0) + time.Second)
		p.unknown = p.unknown || (seen.Answered.IsZero() && seen.Err == nil && p.now.Sub(seen.Tracked) < 2*readTimeout)
	}
	p.leave()
	disks := p.withLeaving().Spec.Disks
	for pod, seen := range p.agents {
		seen.Report.Disks = slices.DeleteFunc(slices.Clone(seen.Report.Disks), func(d agentapi.DiskReport) bool {
			return !slices.ContainsFunc(disks, func(disk v1alpha1.Disk) bool { return disk.Name == d.Name })
		})
		p.agents[pod] = seen
	}
}

// cachedBytes returns the size of each disk's cache over all pods, as far as their agents have reported. For an agent
// that does not report it, everything on the disk counts.
func cachedBytes(agents map[string]Observation) map[string]int64 {
	cached := map[string]int64{}
	for _, seen := range agents {
		for _, d := range seen.Report.Disks {
			cached[d.Name] += ptr.Deref(d.CacheBytes, d.Size/100*int64(d.UsedPercent))
		}
	}
	return cached
}

// client returns the client for the agents of a CacheNode, renewed when its certificates change; nil if they are
// unusable.
func (a *Agents) client(cacheNode types.NamespacedName, secret *corev1.Secret) *agentclient.Client {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if known := a.clients[cacheNode]; known.client != nil && known.version == secret.ResourceVersion {
		return known.client
	}
	config, err := pki.Client(secret.Data, naming.AgentName(cacheNode.Namespace, cacheNode.Name))
	if err != nil {
		return nil
	}
	a.clients[cacheNode] = versionedClient{client: agentclient.New(config), version: secret.ResourceVersion}
	return a.clients[cacheNode].client
}
