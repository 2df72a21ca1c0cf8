package cache

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// hopFormat is the log format for requests that another pod has answered. fillFormat is the log format for requests
// that copy an object to the disk to which its key has moved.
const (
	hopFormat  = "hop"
	fillFormat = "fill"
)

// sampledVariable is 1 for the requests that are reported to the agent.
const sampledVariable = "$sampled"

// reports is the part of the configuration with the log formats.
type reports struct{ site }

// reporting returns the formats in which nginx reports requests to the agent, and the block that selects the sampled
// requests.
//
// nginx has no variable for the time to the first byte. But nginx computes the value of a map only once, at its first
// use. So a response header uses the map, and nginx computes the map's value when it makes the headers of the response.
// This header is empty, so nginx never sends it.
func (r reports) reporting() conf.Block {
	format := conf.D("log_format", conf.Literal("agent"), conf.Expression(agentapi.RequestFormat))
	block := conf.Block{
		format,
		conf.Map("$request_time", "$first_byte",
			conf.D("default", conf.Expression("$request_time"))),
		conf.Map("$first_byte", "$nothing",
			conf.D("default", conf.Literal(""))),
		rejectedMap(),
	}
	if r.hops() {
		block = append(block,
			conf.D("log_format", conf.Literal(hopFormat), conf.Expression(agentapi.HopFormat)),
			// If nginx skips a pod (max_fails), the address in $upstream_addr is the name of the pod's upstream.
			conf.Map("$upstream_addr", "$skips_owner",
				conf.Row(conf.Expression("~(?:^| : )"+r.lookupName()), conf.Literal("1")),
				conf.D("default", conf.Literal("0"))))
		block = append(block, r.alone()...)
	}
	if r.fills() {
		block = append(block, conf.D("log_format", conf.Literal(fillFormat),
			conf.Expression(strings.Replace(agentapi.RequestFormat, diskVariable, diskInRequest, 1))))
	}
	if methods := r.unsafeMethods(); methods != "" {
		block = append(block,
			conf.D("log_format", conf.Literal(agentapi.TagUnsafe), conf.Literal("escape=none"),
				conf.Expression(agentapi.UnsafeFormat)),
			conf.Map("$request_method:$status", unsafeVariable,
				conf.Row(conf.Expression("~^(?:"+methods+"):[23]"), conf.Literal("1")),
				conf.D("default", conf.Literal("0"))))
	}
	if r.isJSON() {
		block = append(block, r.jsonLog()...)
	}
	if percent := r.sampling(); percent > 0 && percent < 100 {
		block = append(block, conf.B("split_clients",
			[]conf.Argument{conf.Expression("$msec/$connection/$connection_requests"), conf.Expression(sampledVariable)},
			conf.D(conf.Percent(percent*100), conf.Literal("1")),
			conf.D("*", conf.Literal("0"))))
	}
	return block
}

// aloneVariable is 1 for the reported requests that this pod answers although another pod owns the key.
const aloneVariable = "$alone"

// alone returns the map for aloneVariable. The variable is 1 if another pod was asked or skipped, and a location of
// this pod got the request after that.
func (r reports) alone() conf.Block {
	sampled := conf.Expression("1")
	if r.sampling() < 100 {
		sampled = sampledVariable
	}
	return conf.Block{conf.Map(sampled+" $upstream_addr", aloneVariable,
		conf.Row(
			conf.Expression(fmt.Sprintf("~^1 .*(?:%s|:%d(?:,| |$))", r.lookupName(), r.lookupPort())), conf.Literal("1")),
		conf.D("default", conf.Literal("0")))}
}

// logsOfFills reports to the agent where an object with a moved key came from. All such requests are reported, not a
// sample.
func (s site) logsOfFills(tag string) conf.Block {
	if s.sampling() == 0 {
		return nil
	}
	return conf.Block{conf.D("access_log", toAgent(tag), conf.Literal(fillFormat))}
}

// unsafeVariable is 1 for requests that may have changed something at the origin.
const unsafeVariable = "$unsafe"

// unsafeMethods returns the methods of requests that may change something, as alternatives of a regular expression; ""
// if the spec ignores such requests. If the spec caches responses to POST, a POST changes nothing.
func (s site) unsafeMethods() string {
	switch {
	case s.Spec.Purge.UnsafeMethods == v1alpha1.UnsafeIgnore:
		return ""
	case slices.Contains(s.Cache.Methods, "POST"):
		return "PUT|PATCH|DELETE"
	}
	return "POST|PUT|PATCH|DELETE"
}

func (n node) sampling() int { return int(ptr.Deref(n.Spec.Monitoring.RequestSampling, 0)) }

// logs returns the access logs of a location: the log for the user, and the report to the agent under the tag. nginx
// reports every request that its own disk could not serve, and a sample of the other requests.
func (d door) logs(tag string) conf.Block {
	var block conf.Block
	if d.Spec.Logs.Access == "Stdout" && !d.toPeers {
		block = append(block, conf.D("access_log", conf.Literal("/dev/stdout"), conf.Literal(d.logFormat(tag))))
	}
	if !d.toPeers && d.unsafeMethods() != "" {
		block = append(block, conf.D("access_log", toAgent(agentapi.TagUnsafe), conf.Literal(agentapi.TagUnsafe),
			conf.Expression("if="+unsafeVariable)))
	}
	format := conf.Literal("agent")
	if isHop(tag) {
		format = hopFormat
	}
	args := []conf.Argument{toAgent(tag), format}
	if percent := d.sampling(); tag != agentapi.TagOtherDisk && tag != agentapi.TagUncached && percent < 100 {
		if percent == 0 {
			return block
		}
		args = append(args, conf.Expression("if="+sampledVariable))
	}
	block = append(block, conf.D("access_log", args...))
	if !d.toPeers && d.hops() && d.sampling() > 0 && format != hopFormat && tag != agentapi.TagMemory {
		block = append(block, conf.D("access_log", toAgent(agentapi.TagAlone), conf.Literal(hopFormat),
			conf.Expression("if="+aloneVariable)))
	}
	return append(block,
		addHeader("X-First-Byte", conf.Expression("$nothing")))
}
