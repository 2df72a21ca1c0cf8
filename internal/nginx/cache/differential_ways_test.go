package cache_test

import (
	"fmt"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest/differential"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// small are sizes of bodies near the sizes at which nginx works differently: the sizes of its buffers, and the largest
// object of the memory tier.
var small = []int{0, 1, 100, 4096, 16 << 10, 60_000, 64 << 10, 64<<10 + 1, 200_000}

// large1Mi are sizes around slices of 1 MiB.
var large1Mi = []int{0, 1, 1000, mebi - 1, mebi, mebi + 1, 2 * mebi, 5 << 19}

// differentialWays returns all ways, by name.
func differentialWays() map[string]differentialWay {
	tier := nginxtest.MemoryTier("minUses: 1, maxObjectSize: 64Ki")
	const noTier, sliced = "  memoryTier: {enabled: false}\n", "  cache: {slice: {size: 1Mi}}\n"
	shape := differential.Shape{
		Pods: 1, Sizes: small, Steps: stepsOfCase, Strict: true,
		Protocols: []differential.Protocol{differential.HTTP10, differential.HTTP11, differential.HTTP11},
	}
	local := differentialWay{yaml: threeDisks + noTier, pods: 1, shape: shape, port: 8080}
	three := differentialWay{yaml: sharded(noTier), pods: 3, shape: shape, port: 8080, fleet: fleet.Of(3)}
	three.shape.Pods = 3
	all := []differential.Protocol{differential.HTTP10, differential.HTTP11, differential.HTTP2, differential.HTTP3}
	standIn := three
	standIn.standIn, standIn.shape.Pods = true, 2
	oneDiskMore := local.from(strings.Replace(local.yaml, ", {name: disk3, size: 1Gi}", "", 1), fleet.Of(1))
	oneDiskMore.fleet = aDiskMore()
	onePodMore := three.from(three.yaml, fleet.Of(2))
	onePodMore.fleet.Previous = fleet.Of(2).Owners
	onePodLess := three.from(three.yaml, fleet.Of(3))
	onePodLess.fleet = fleet.Of(2)
	onePodLess.fleet.Previous = fleet.Of(3).Owners
	return map[string]differentialWay{
		"local":                  local,
		"many workers":           local.with("  io: {mode: Workers}\n"),
		"hard disks":             three,
		"without scripts":        three.withoutScripts(),
		"fast disks":             three.on(nvme),
		"stand-in":               standIn,
		"stand-in, fast disks":   standIn.on(nvme),
		"slices":                 local.with(sliced).slices(),
		"slices of others":       three.with(sliced).slices(),
		"slices of others, fast": three.on(nvme).with(sliced).slices(),
		"memory":                 local.memory(tier),
		"memory, others":         three.memory(tier),
		"memory and slices":      three.memory(tier).with(sliced).slices(),
		"protocols":              local.over(all...),
		"protocols, others":      three.over(differential.HTTP2, differential.HTTP3),
		"routes":                 local.ofRoutes(),
		"routes, others":         three.ofRoutes(),
		"routes, fast disks":     three.on(nvme).ofRoutes(),
		"routes, stand-in":       standIn.ofRoutes(),
		"routes, slices":         three.with(sliced).slices().ofRoutes(),
		"routes, memory":         three.memory(tier).ofRoutes(),
		"routes, a pod more":     onePodMore.ofRoutes(),
		"a disk more":            oneDiskMore,
		"a disk more, slices":    oneDiskMore.with(sliced).slices(),
		"a pod more":             onePodMore,
		"a pod more, slices":     onePodMore.with(sliced).slices(),
		"a pod less":             onePodLess,
	}
}

// from makes pods or disks change in the middle of each case. yaml and f are the spec and the fleet for the first half.
func (w differentialWay) from(yaml string, f fleet.Fleet) differentialWay {
	w.before = &differentialWay{yaml: yaml, fleet: f}
	return w
}

// over makes clients use the given protocols, and adds a listener for TLS and HTTP/3 to the spec.
func (w differentialWay) over(protocols ...differential.Protocol) differentialWay {
	w.shape.Protocols = protocols
	return w.with("  listen: {tls: {secretName: edge-tls, http3: true}}\n")
}

// on gives a way disks of another kind.
func (w differentialWay) on(disk string) differentialWay {
	w.yaml = strings.ReplaceAll(w.yaml, "size: 1Gi", disk)
	return w
}

// with adds lines to a way's spec.
func (w differentialWay) with(lines string) differentialWay {
	w.yaml += lines
	if w.before != nil {
		w.before = &differentialWay{yaml: w.before.yaml + lines, fleet: w.before.fleet}
	}
	return w
}

// withoutScripts makes nginx lack its module for scripts.
func (w differentialWay) withoutScripts() differentialWay {
	w.noScripts = true
	return w
}

// ofRoutes makes clients send requests to a listener of a Gateway.
func (w differentialWay) ofRoutes() differentialWay {
	w.port = routedPort
	return w
}

const (
	routedPort = 20000
	routedSite = "111111111111.11111111.site"
)

// differentialRoutes returns a route for the objects of a differentialWay, among routes that would answer with an
// error.
func differentialRoutes() routes.Table {
	to := func(port int32) []routes.Backend {
		return []routes.Backend{{Name: fmt.Sprint("backend:", port), Host: "127.0.0.1", Port: port, Weight: 1}}
	}
	rule := func(path, method string, port int32) routes.Rule {
		return routes.Rule{
			Matches: []routes.Match{{Path: routes.Path{Value: path}, Method: method}}, Backends: to(port),
		}
	}
	const nobody = 9999
	return routes.Table{
		Listeners: []routes.Listener{{
			Gateway: "edge/main", Name: "http", Port: 80, PodPort: routedPort,
			Attached: []routes.Attachment{
				{Route: "team/site", Hosts: []routes.Host{"www.example.com"}},
				{Route: "other/site", Hosts: []routes.Host{"www.example.com", "*.example.com"}},
			},
		}},
		Routes: []routes.Route{
			{Namespace: "team", Name: "site", Site: routedSite, Rules: []routes.Rule{
				rule("/case", "", 9000), rule("/case/none", "", nobody),
			}},
			{Namespace: "other", Name: "site", Site: "222222222222.22222222.site", Rules: []routes.Rule{
				rule("/", "", nobody), rule("/case", "DELETE", nobody),
			}},
		},
	}
}

func (w differentialWay) slices() differentialWay {
	w.shape.Sizes, w.way.Slices = large1Mi, true
	return w
}

func (w differentialWay) memory(tier string) differentialWay {
	w.yaml = strings.Replace(w.yaml, "  memoryTier: {enabled: false}\n", tier, 1)
	w.way.Memory, w.shape.Strict = true, false
	return w
}
