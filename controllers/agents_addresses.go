package controllers

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/layout"
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
