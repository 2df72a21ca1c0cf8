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
	// ownerVariable is the pod that owns a request's key, standInVariable the one that answers if the owner does not.
	ownerVariable   = "$owner"
	standInVariable = "$stand_in"
	// pairVariable has both, as package shard writes them. previousVariable is the owner before the last change.
	pairVariable     = "$pod_pair"
	previousVariable = "$previous_owner"
	// previousDisk is the disk of the key before the last change of the disks.
	previousDisk = "$previous_disk"
	// whereVariable is the location to which a request goes that is not answered from memory.
	whereVariable = "$where"
	// orStandIn is the location to which a request goes if the owner does not answer.
	orStandIn = "$or_stand_in"
	// peersZone is where nginx keeps which pods do not answer.
	peersZone = "peers"
	// lookupName and peerName begin the names of the upstreams that lead to a pod.
	lookupName = "lookup_"
	peerName   = "peer_"
)

// Fleet is what the configuration takes from the other pods of the CacheNode, if routing.mode is Sharded.
type Fleet struct {
	fleet.Fleet
	// Self is the ordinal of the pod.
	Self int
	// Certificate is a hash of what routing.tls Mutual needs. The files must be at layout.PeerCertificate, PeerKey and
	// PeerAuthority before nginx reads the text.
	Certificate string
}

// Share is the share of the keys that the pod owns, from 0 to 1: all of them if no other pod owns any.
func (f Fleet) Share() float64 {
	plan, ok := f.Plan()
	if !ok {
		return 1
	}
	return float64(plan.Share(fleet.Name(f.Self))) / shard.Slots
}

// NominalFleet is the fleet of the first pod when all pods own keys. The operator validates with it, and the plugin
// shows it.
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

// isSharded is true if the pod serves other pods of the CacheNode.
func (r renderer) isSharded() bool { return r.Spec.Routing.Mode == v1alpha1.RoutingSharded }

// peersTLS is true if pods prove to each other who they are.
func (r renderer) peersTLS() bool { return r.Spec.Routing.TLS != v1alpha1.PeerTLSOff }

// others are the owners that are other pods, sorted.
func (r renderer) others(o fleet.Owners) []int {
	if !r.isSharded() {
		return nil
	}
	return slices.DeleteFunc(o.Present(), func(pod int) bool { return pod == r.Facts.Fleet.Self })
}

// hops is true if other pods own keys.
func (r renderer) hops() bool { return len(r.others(r.Facts.Fleet.Owners)) > 0 }

// fillsFromPods is true if keys that have moved to this pod are filled from the pod where they were.
func (r renderer) fillsFromPods() bool {
	return len(r.disks) > 0 && len(r.others(r.Facts.Fleet.Previous)) > 0
}

// fillsFromDisks is true if keys that have moved to another disk of this pod are filled from the disk where they were.
func (r renderer) fillsFromDisks() bool {
	before, ok := r.Facts.Fleet.Disks.Plan()
	return ok && len(r.disks) > 0 && before.Moved(r.plan) > 0
}

// fills is true if some keys are filled from where they were.
func (r renderer) fills() bool { return r.fillsFromPods() || r.fillsFromDisks() }

// peers are the pods that this pod may ask, sorted.
func (r renderer) peers() []int {
	pods := slices.Concat(r.others(r.Facts.Fleet.Owners), r.others(r.Facts.Fleet.Previous))
	slices.Sort(pods)
	return slices.Compact(pods)
}

// place is where a request goes that is not answered from memory.
func (r renderer) place() conf.Argument {
	if r.hops() {
		return conf.Expression(whereVariable)
	}
	return conf.Expression(hereVariable)
}

// fleetMaps say for each key which pod owns it, and where a request for it goes.
func (r renderer) fleetMaps() conf.Block {
	if !r.hops() {
		return nil
	}
	pair := conf.Expression(pairVariable)
	owner := conf.B("map", []conf.Argument{pair, conf.Expression(ownerVariable)},
		conf.D("default", pair), conf.Row(conf.Expression("~^(?<owner_part>[^:]+):"), conf.Expression("$owner_part")))
	owner.Comment = "Which pod owns a key, and which one answers if the owner does not."
	standIn := conf.B("map", []conf.Argument{pair, conf.Expression(standInVariable)},
		conf.D("default", conf.Literal("")),
		conf.Row(conf.Expression("~:(?<stand_in_part>.+)$"), conf.Expression("$stand_in_part")))
	where := conf.B("map",
		[]conf.Argument{conf.Expression(plainVariable + ":" + ownerVariable), conf.Expression(whereVariable)},
		conf.D("default", conf.Expression(hereVariable)))
	or := conf.B("map", []conf.Argument{conf.Expression(standInVariable), conf.Expression(orStandIn)},
		conf.D("default", conf.Expression(hereVariable)))
	for _, pod := range r.others(r.Facts.Fleet.Owners) {
		where.Block = append(where.Block, conf.D("1:"+fleet.Name(pod), conf.Literal(onOwner)))
		or.Block = append(or.Block, conf.D(fleet.Name(pod), conf.Literal(onStandIn)))
	}
	return append(conf.Block{owner, standIn, where, or}, r.afterMaps()...)
}

// fleetShards map the cache key to the pods. They hash the key with a prefix, or the keys of a pod would all be on a
// few of its disks.
func (r renderer) fleetShards() conf.Block {
	if r.withoutRanges {
		return nil
	}
	key := fleet.KeyPrefix + r.key()
	var block conf.Block
	if r.hops() {
		plan, _ := r.Facts.Fleet.Plan() // others own keys
		tree := plan.Tree()
		if standIns, ok := plan.StandIns(); ok {
			tree = plan.Pairs(standIns)
		}
		block = append(block, shards(key, pairVariable, "pod", tree)...)
	}
	if r.fillsFromPods() {
		plan, _ := r.Facts.Fleet.Previous.Plan()
		block = append(block, shards(key, previousVariable, "previous", plan.Tree())...)
	}
	if r.fillsFromDisks() {
		plan, _ := r.Facts.Fleet.Disks.Plan()
		block = append(block, shards(r.key(), previousDisk, "former", plan.Tree())...)
	}
	return block
}

// fleetUpstreams lead to the other pods. There is one for each disk of a pod, so that a disk that does not answer in
// time takes only its own keys to the stand-in, and one for requests whose disk has answered.
//
// A single server of an upstream is never taken to have failed, so each has a second one, which is always down.
// Requests then fail at once until fail_timeout is over, and one request tries again.
func (r renderer) fleetUpstreams() conf.Block {
	var block conf.Block
	peers := r.peers()
	upstreams := len(peers) * (len(r.fleetDisks()) + 1)
	connections := min(max(512/max(upstreams, 1), 2), 16)
	size := max(int64(upstreams)*8<<10, 1<<20)
	upstream := func(name string, server []conf.Argument) {
		zone := conf.Literals(peersZone)
		if len(block) == 0 { // the first one says how large the zone is that all of them share
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
	for _, pod := range peers {
		for _, disk := range r.fleetDisks() {
			upstream(lookupName+fleet.Name(pod)+"_"+disk,
				r.peerServer(pod, layout.LookupPort, "max_fails=2", "fail_timeout=10s"))
		}
		upstream(peerName+fleet.Name(pod), r.peerServer(pod, layout.PeerPort, "max_fails=0"))
	}
	return block
}

// fleetDisks are the disks that a request can be for. A pod without usable disks gives each request the same one.
func (r renderer) fleetDisks() []string {
	if len(r.disks) == 0 {
		return []string{agentapi.NoDisk}
	}
	names := make([]string, len(r.Spec.Disks))
	for i, d := range r.Spec.Disks {
		names[i] = d.Name
	}
	slices.Sort(names)
	return names
}

// peerServer is the server line of a pod.
func (r renderer) peerServer(pod, port int, parameters ...string) []conf.Argument {
	host := naming.PodHost(r.Name, pod, r.Namespace, r.ClusterDomain)
	args := append(conf.Literals(fmt.Sprintf("%s:%d", host, port)), conf.Literals(parameters...)...)
	return append(args, conf.Literal("resolve"))
}

// minUses is after how many requests a location of a disk stores an object. A request that came from another pod has
// been counted twice, when the pod looked the object up and when it then fetched the object; slices are not looked up.
func (r renderer) minUses() int32 {
	uses := ptr.Deref(r.Spec.Cache.MinUses, 1)
	if r.door == toPeers && !r.hasSlices() {
		uses = 2*uses - 1
	}
	return uses
}

// shards are the split_clients blocks of a tree, whose value is the variable. name begins the names of its groups'
// variables.
func shards(key conf.Expression, variable, name string, tree shard.Tree) conf.Block {
	if len(tree.Groups) == 0 {
		return conf.Block{split(key, variable, tree.Root)}
	}
	group := "$" + name + "_group"
	choice := conf.B("map", []conf.Argument{conf.Expression(group), conf.Expression(variable)})
	choice.Rows = true
	block := conf.Block{split(key, group, tree.Root), choice}
	for _, g := range tree.Groups {
		of := "$" + name + "_" + g.Name
		block[1].Block = append(block[1].Block, conf.D(g.Name, conf.Expression(of)))
		block = append(block, split(key, of, g.Split))
	}
	return block
}
