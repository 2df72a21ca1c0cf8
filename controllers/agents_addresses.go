package controllers

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/storage"
)

// tellInterval is the time after which an agent is told again where the pods are, although nothing has changed. It is
// well below [agentapi.AddressesValid].
const tellInterval = 10 * time.Second

// whereabouts are where the pods of a CacheNode are. number grows with each change.
type whereabouts struct {
	agentapi.Addresses
	number int64
}

// heard is what an agent was told last of where the pods are: the number, and when.
type heard struct {
	number int64
	at     time.Time
}

// locate tells [Agents] where the pods are that share keys.
func (r *CacheNodeReconciler) locate(p *pass) {
	var addresses map[string]netip.Addr
	if stable, candidate := p.offered.stable, p.offered.candidate; sharesKeys(stable) || sharesKeys(candidate) {
		addresses = podAddresses(p.pods, p.agents)
	}
	r.Agents.Locate(client.ObjectKeyFromObject(p.cacheNode), addresses)
}

func sharesKeys(revision *agentapi.Revision) bool {
	return revision != nil && revision.Spec.Routing.Mode == v1alpha1.RoutingSharded
}

// podAddresses returns the IPv4 addresses of pods whose nginx runs, by name: of those that are ready, or whose agent
// has reported that nginx answers. A pod that is not ready can serve, as one whose agent hangs does, or one that is
// being deleted: until its nginx has ended. nginx in other pods would leave a pod alone for ten seconds that does not
// listen yet.
func podAddresses(pods []corev1.Pod, agents map[string]Observation) map[string]netip.Addr {
	addresses := map[string]netip.Addr{}
	for i := range pods {
		pod := &pods[i]
		if hasNoNginx(pod) || (!storage.IsReady(pod) && agents[pod.Name].Report.Revision == "") {
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

// hasNoNginx is true for a pod whose nginx has not begun or has ended.
func hasNoNginx(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == layout.Container && (c.State.Waiting != nil || c.State.Terminated != nil)
	})
}

// Locate replaces the addresses of a CacheNode's pods, by name; nil if its agents need none. After a change, all agents
// get them at once.
func (a *Agents) Locate(cacheNode types.NamespacedName, pods map[string]netip.Addr) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if pods == nil {
		delete(a.whereabouts, cacheNode)
		return
	}
	known := a.whereabouts[cacheNode]
	if known.number > 0 && maps.Equal(known.Pods, pods) {
		return
	}
	a.numbered++
	a.whereabouts[cacheNode] = whereabouts{Addresses: agentapi.Addresses{Pods: pods}, number: a.numbered}
	for pod := range a.pods[cacheNode] {
		if of := a.known[pod]; of != nil && a.queueOf(of) == a.answering {
			a.answering.Add(pod)
		}
	}
}

// tell tells an agent that has just answered where the other pods are, if it does not know.
func (a *Agents) tell(ctx context.Context, pod types.NamespacedName, current agent, report agentapi.Report) {
	a.mutex.Lock()
	where, now := a.whereabouts[current.cacheNode], a.clock.Now()
	knows := current.heard.number == where.number && now.Sub(current.heard.at) < tellInterval
	a.mutex.Unlock()
	if where.number == 0 || knows || report.Renderer < agentapi.ResolvingRenderer {
		return
	}
	address := net.JoinHostPort(current.IP, strconv.Itoa(layout.AgentPort))
	if err := a.inform(ctx, current.client, address, where.Addresses); err != nil {
		log.FromContext(ctx).V(1).Info("telling an agent where the pods are", "pod", pod, "error", err.Error())
		return // the next read tells it
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if known := a.known[pod]; known != nil && known.UID == current.UID {
		known.heard = heard{number: where.number, at: now}
	}
}
