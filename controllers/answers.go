package controllers

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/agents"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// answers contains the last answer of each agent in the pods of a CacheNode.
type answers struct {
	// byPod maps the name of each pod to the last observation of the pod's agent.
	byPod map[string]agents.Observation
	// cached maps each disk to the total size of its caches in all pods, in bytes. Disks that are no longer in the spec
	// are included.
	cached map[string]int64
	// unknown is true for a short time after the start of this operator, until each agent of a ready pod has returned an
	// answer or an error. The operator decides nothing during that time.
	unknown bool
}

// ask tells [agents.Tracker] which pods to read and at which addresses. It returns the last answers of their agents.
func (r *CacheNodeReconciler) ask(s scope, o observed, out *outcome) (a answers) {
	name := client.ObjectKeyFromObject(s.cacheNode)
	var targets []agents.Target
	for i := range o.pods {
		pod := &o.pods[i]
		targets = append(targets, agents.Target{
			Pod: client.ObjectKeyFromObject(pod), UID: pod.UID, IP: pod.Status.PodIP, Ready: storage.IsReady(pod),
			Leaving: !pod.DeletionTimestamp.IsZero(),
		})
	}
	var c *agentclient.Client
	if o.own.secret != nil {
		c = r.Agents.Client(name, o.own.secret)
	}
	a.byPod = r.Agents.Track(name, c, targets)
	var addresses map[string]netip.Addr
	if sharesKeys(o.offered.stable) || sharesKeys(o.offered.candidate) {
		addresses = podAddresses(o.pods, a.byPod)
	}
	r.Agents.Locate(name, addresses)
	a.cached = cachedBytes(a.byPod)
	for i := range o.pods {
		seen := a.byPod[o.pods[i].Name]
		if !storage.IsReady(&o.pods[i]) || (!seen.Answered.IsZero() && seen.Err == nil) {
			continue
		}
		out.lookAgain(seen.Patience(s.now))
		a.unknown = a.unknown || seen.IsUnknown(s.now)
	}
	return a
}

// about returns the answers, reduced to the reports about the given disks.
func (a answers) about(disks []v1alpha1.Disk) answers {
	a.byPod = maps.Clone(a.byPod)
	for pod, seen := range a.byPod {
		seen.Report.Disks = slices.DeleteFunc(slices.Clone(seen.Report.Disks), func(d agentapi.DiskReport) bool {
			return !slices.ContainsFunc(disks, func(disk v1alpha1.Disk) bool { return disk.Name == d.Name })
		})
		a.byPod[pod] = seen
	}
	return a
}

// unhealthy returns the disks that are not healthy.
func (a answers) unhealthy() map[storage.PodDisk]storage.Report {
	disks := map[storage.PodDisk]storage.Report{}
	for pod, seen := range a.byPod {
		for _, d := range seen.Report.Disks {
			if d.State != v1alpha1.DiskHealthy {
				disks[storage.PodDisk{Pod: pod, Disk: d.Name}] = storage.Report{State: d.State, Reason: d.Reason, Since: d.Since}
			}
		}
	}
	return disks
}

// cachedBytes returns the total size of each disk's caches in all pods whose agents have reported. If an agent does
// not report the size of a cache, all bytes in use on the disk count instead.
func cachedBytes(agents map[string]agents.Observation) map[string]int64 {
	cached := map[string]int64{}
	for _, seen := range agents {
		for _, d := range seen.Report.Disks {
			cached[d.Name] += ptr.Deref(d.CacheBytes, d.Size/100*int64(d.UsedPercent))
		}
	}
	return cached
}

func sharesKeys(revision *agentapi.Revision) bool {
	return revision != nil && revision.Spec.Routing.Mode == v1alpha1.RoutingSharded
}

// podAddresses returns the IPv4 addresses of the pods whose nginx runs, by pod name. These are the ready pods, even if
// they are being deleted, and the pods whose agents have reported a revision that nginx runs. A pod whose agent hangs
// is not ready, but its nginx can still serve requests. A pod whose nginx does not listen yet is left out. Otherwise, a
// request from nginx in another pod would fail, and that nginx would send no more requests to this pod for ten seconds.
func podAddresses(pods []corev1.Pod, agents map[string]agents.Observation) map[string]netip.Addr {
	addresses := map[string]netip.Addr{}
	for i := range pods {
		pod := &pods[i]
		if hasNoNginx(pod) || (!storage.IsServing(pod) && agents[pod.Name].Report.Revision == "") {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			if address, err := netip.ParseAddr(ip.IP); err == nil && address.Is4() {
				addresses[pod.Name] = address
			}
		}
	}
	return addresses
}

// hasNoNginx returns true for a pod whose nginx container has not started yet or has ended.
func hasNoNginx(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == layout.Container && (c.State.Waiting != nil || c.State.Terminated != nil)
	})
}
