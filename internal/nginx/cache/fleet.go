package cache

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

const (
	// ownerVariable is the pod that owns the key of a request. standInVariable is the pod that answers if the owner does
	// not.
	ownerVariable   = "$owner"
	standInVariable = "$stand_in"
	// pairVariable contains both pods, in the format of package shard. previousVariable is the owner before the last
	// change of owners.
	pairVariable     = "$pod_pair"
	previousVariable = "$previous_owner"
	// previousDisk is the disk of the key before the last change of the disks.
	previousDisk = "$previous_disk"
	// whereVariable contains the location for requests that are not answered from memory.
	whereVariable = "$where"
	// orStandIn contains the location to which a request goes if the owner does not answer.
	orStandIn = "$or_stand_in"
	// peersZone is the shared memory zone in which nginx records which pods do not answer.
	peersZone = "peers"
)

// Fleet contains the facts about the other pods of the CacheNode on which the configuration depends, if routing.mode
// is Sharded.
type Fleet struct {
	fleet.Fleet
	// Self is the ordinal of this pod.
	Self int
	// Certificate is a hash of the files that routing.tls Mutual needs. These files must be at layout.PeerCertificate,
	// PeerKey and PeerAuthority before nginx reads the configuration.
	Certificate string
}

// Share returns the share of the keys that the pod owns, from 0 to 1. It returns 1 if no pod owns keys.
func (f Fleet) Share() float64 {
	plan, ok := f.Plan()
	if !ok {
		return 1
	}
	return float64(plan.Share(fleet.Name(f.Self))) / shard.Slots
}

// NominalFleet returns the fleet that the first pod gets when all pods own keys. The operator validates the
// configuration that is rendered for this fleet, and the plugin's verb render shows it.
func NominalFleet(spec v1alpha1.CacheNodeSpec) (f Fleet) {
	if spec.Routing.Mode != v1alpha1.RoutingSharded {
		return f
	}
	f.Fleet = fleet.Of(int(ptr.Deref(spec.Replicas, 1)))
	if spec.Routing.TLS != v1alpha1.PeerTLSOff {
		f.Certificate = "nominal"
	}
	return f
}

// isSharded returns true if the pod serves other pods of the CacheNode.
func (n node) isSharded() bool { return n.Spec.Routing.Mode == v1alpha1.RoutingSharded }

// peersTLS returns true if pods authenticate each other by certificates.
func (n node) peersTLS() bool { return n.Spec.Routing.TLS != v1alpha1.PeerTLSOff }

// others returns the owners that are other pods, sorted.
func (n node) others(o fleet.Owners) []int {
	if !n.isSharded() {
		return nil
	}
	return slices.DeleteFunc(o.Present(), func(pod int) bool { return pod == n.Facts.Fleet.Self })
}

// hops returns true if other pods own keys.
func (n node) hops() bool { return len(n.others(n.Facts.Fleet.Owners)) > 0 }

// fillsFromPods returns true if objects of keys that have moved to this pod are copied from the previous owners of
// the keys.
func (n node) fillsFromPods() bool {
	return len(n.disks) > 0 && len(n.others(n.Facts.Fleet.Previous)) > 0
}

// fillsFromDisks returns true if objects of keys that have moved to another disk of this pod are copied from the
// previous disks of the keys.
func (n node) fillsFromDisks() bool {
	before, ok := n.Facts.Fleet.Disks.Plan()
	return ok && len(n.disks) > 0 && before.Moved(n.plan) > 0
}

// fills returns true if objects of some keys are copied from the pods or disks that had the keys before.
func (n node) fills() bool { return n.fillsFromPods() || n.fillsFromDisks() }

// peers returns the pods that this pod may ask, sorted.
func (n node) peers() []int {
	pods := slices.Concat(n.others(n.Facts.Fleet.Owners), n.others(n.Facts.Fleet.Previous))
	slices.Sort(pods)
	return slices.Compact(pods)
}

// place returns the location for requests that are not answered from memory.
func (n node) place() conf.Argument {
	if n.hops() {
		return conf.Expression(whereVariable)
	}
	return conf.Expression(hereVariable)
}

// fleetMaps returns the maps that define for each key which pod owns it, and to which location a request for it goes.
func (k core) fleetMaps() conf.Block {
	if !k.hops() {
		return nil
	}
	pair := conf.Expression(pairVariable)
	where := conf.Block{conf.D("default", conf.Expression(hereVariable))}
	or := slices.Clone(where)
	for _, pod := range k.others(k.Facts.Fleet.Owners) {
		where = append(where, conf.D("1:"+fleet.Name(pod), conf.Literal(onOwner)))
		or = append(or, conf.D(fleet.Name(pod), conf.Literal(onStandIn)))
	}
	return append(conf.Block{
		conf.Map(pair, ownerVariable,
			conf.D("default", pair), conf.Row(conf.Expression("~^(?<owner_part>[^:]+):"), conf.Expression("$owner_part"))).
			WithComment("Which pod owns a key, and which one answers if the owner does not."),
		conf.Map(pair, standInVariable,
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression("~:(?<stand_in_part>.+)$"), conf.Expression("$stand_in_part"))),
		conf.Map(plainVariable+":"+ownerVariable, whereVariable, where...),
		conf.Map(standInVariable, orStandIn, or...),
	}, k.afterMaps()...)
}

// lookupName returns the beginning of the names of the upstreams that look an object up in a pod.
func (s site) lookupName() string { return s.inPods() + "lookup_" }

// peerName returns the beginning of the names of the upstreams that fetch an object from a pod.
func (s site) peerName() string { return s.inPods() + "peer_" }

// inPods returns the beginning of the names of all upstreams that lead to pods.
func (s site) inPods() string {
	if s.ofRoutes {
		return "routes_"
	}
	return ""
}

// lookupPort returns the port at which pods answer lookups for the site by other pods.
func (s site) lookupPort() int {
	if s.ofRoutes {
		return layout.RoutesLookupPort
	}
	return layout.LookupPort
}

// peerPort returns the port at which pods fetch objects of the site for other pods.
func (s site) peerPort() int {
	if s.ofRoutes {
		return layout.RoutesPeerPort
	}
	return layout.PeerPort
}

// pods is the part of the configuration with the upstreams for the other pods.
type pods struct{ node }

// upstreams returns the upstreams for the other pods, for each site. For each disk of a pod, there is one upstream.
// So if a disk does not answer in time, only the keys of that disk go to the stand-in. Each pod has one more
// upstream, for requests whose disk has already answered a lookup.
//
// nginx never marks the only server of an upstream as failed. So each upstream has a second server, which is always
// down. After failures, requests to the pod then fail at once until fail_timeout is over. After that, one request
// tries the pod again.
func (p pods) upstreams(sites []site) conf.Block {
	var block conf.Block
	peers := p.peers()
	upstreams := len(sites) * len(peers) * (len(p.fleetDisks()) + 1)
	connections := min(max(512/max(upstreams, 1), 2), 16)
	size := max(int64(upstreams)*8<<10, 1<<20)
	upstream := func(name string, server []conf.Argument) {
		zone := conf.Literals(peersZone)
		if len(block) == 0 { // the first upstream sets the size of the zone that all share
			zone = append(zone, conf.Size(size))
		}
		block = append(block, conf.B("upstream", conf.Literals(name),
			conf.D("zone", zone...),
			conf.D("server", server...),
			conf.D("server", conf.Literal("127.0.0.1:9"), conf.Literal("down")),
			conf.D("keepalive", conf.Int(connections)),
			conf.D("keepalive_requests", conf.Literal("100000")),
			conf.D("keepalive_timeout", conf.Literal("60s"))))
	}
	for _, s := range sites {
		for _, pod := range peers {
			for _, disk := range p.fleetDisks() {
				upstream(s.lookupName()+fleet.Name(pod)+"_"+disk,
					p.peerServer(pod, s.lookupPort(), "max_fails=2", "fail_timeout=10s"))
			}
			upstream(s.peerName()+fleet.Name(pod), p.peerServer(pod, s.peerPort(), "max_fails=0"))
		}
	}
	return block
}

// fleetDisks returns the disks on which the key of a request can be. A pod without usable disks uses agentapi.NoDisk
// for every request.
func (n node) fleetDisks() []string {
	if len(n.disks) == 0 {
		return []string{agentapi.NoDisk}
	}
	names := make([]string, len(n.Spec.Disks))
	for i, d := range n.Spec.Disks {
		names[i] = d.Name
	}
	slices.Sort(names)
	return names
}

// peerServer returns the arguments of the server directive for a pod.
func (p pods) peerServer(pod, port int, parameters ...string) []conf.Argument {
	host := naming.PodHost(p.Name, pod, p.Namespace, p.ClusterDomain)
	args := append(conf.Literals(fmt.Sprintf("%s:%d", host, port)), conf.Literals(parameters...)...)
	return append(args, conf.Literal("resolve"))
}

// minUses returns the number of uses after which a location of a disk stores an object. A request from another pod
// counts twice: when that pod looks the object up, and when it then fetches the object. With slices, such a request
// counts once, because slices are not looked up.
func (d door) minUses() int32 {
	uses := ptr.Deref(d.Cache.MinUses, 1)
	if d.toPeers && !d.hasSlices() {
		uses = 2*uses - 1
	}
	return uses
}
