package agents

import (
	"context"
	"maps"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// tellInterval is the time after which an agent gets the addresses of the pods again, even if they have not changed.
// It is well below [agentapi.AddressesValid].
const tellInterval = 10 * time.Second

// whereabouts contains the addresses of the pods of a CacheNode. number grows with each change.
type whereabouts struct {
	agentapi.Addresses
	number int64
}

// heard contains the number of the addresses that were last sent to an agent, and the time at which they were sent.
type heard struct {
	number int64
	at     time.Time
}

// Locate sets the addresses of a CacheNode's pods, in place of the earlier ones. pods maps the name of each pod to its
// address; it is nil if the agents need no addresses. After a change, the agents that answered their last read get the
// addresses at once.
func (t *Tracker) Locate(cacheNode types.NamespacedName, pods map[string]netip.Addr) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if pods == nil {
		delete(t.whereabouts, cacheNode)
		return
	}
	known := t.whereabouts[cacheNode]
	if known.number > 0 && maps.Equal(known.Pods, pods) {
		return
	}
	t.numbered++
	t.whereabouts[cacheNode] = whereabouts{Addresses: agentapi.Addresses{Pods: pods}, number: t.numbered}
	for pod := range t.pods[cacheNode] {
		if of := t.known[pod]; of != nil && t.queueOf(of) == t.answering {
			t.answering.Add(pod)
		}
	}
}

// tell sends the addresses of the pods to an agent that has just answered, if the agent does not have them or got
// them too long ago.
func (t *Tracker) tell(ctx context.Context, pod types.NamespacedName, current agent, report agentapi.Report) {
	t.mutex.Lock()
	where, now := t.whereabouts[current.cacheNode], t.clock.Now()
	knows := current.heard.number == where.number && now.Sub(current.heard.at) < tellInterval
	t.mutex.Unlock()
	if where.number == 0 || knows || report.Renderer < agentapi.ResolvingRenderer {
		return
	}
	if err := t.Calls.Tell(ctx, current.client, addressOf(current.IP), where.Addresses); err != nil {
		log.FromContext(ctx).V(1).Info("telling an agent where the pods are", "pod", pod, "error", err.Error())
		return // the next read tries again
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if known := t.known[pod]; known != nil && known.UID == current.UID {
		known.heard = heard{number: where.number, at: now}
	}
}
