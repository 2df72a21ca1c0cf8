package cache

import (
	"strings"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// jsonFormat is the name of the JSON log format. For requests that memory or another pod answers, the name also
// contains the tag.
const jsonFormat = "cachenode_json"

// LogField is a field of a line in the JSON access log.
type LogField struct {
	// Name is the name of the field. Variable is the nginx variable with the field's value; "" if each log format has its
	// own text.
	Name, Variable string
	// IsNumber is false for a string.
	IsNumber bool
	// Note describes the value, for the reference documentation.
	Note string
}

// LogFields are the fields of the JSON access log, in order.
var LogFields = []LogField{
	{"time", "$time_iso8601", false, "when the response ended, in RFC 3339"},
	{"node", "$hostname", false, "the pod"},
	{"client", "$remote_addr", false, "the client's address, see `listen.clientAddress`"},
	{"method", "$request_method", false, "the request's method"},
	{"scheme", "$scheme", false, "`http` or `https`"},
	{"host", "$host", false, "the name that the client asked for"},
	{"uri", "$request_uri", false, "path and arguments, as the client sent them"},
	{"protocol", "$server_protocol", false, "HTTP/1.0, HTTP/1.1, HTTP/2.0 or HTTP/3.0"},
	{"status", "$status_number", true, "the response's status; 0 if the client left before there was one"},
	{"bytes", "$bytes_sent", true, "bytes sent to the client, header included"},
	{"seconds", "$request_time", true, "time from the first byte of the request to the last byte of the response"},
	{"firstByteSeconds", "$first_byte", true, "the same up to the first byte of the response"},
	{
		fieldCache, "$upstream_cache_status", false,
		"as `X-Cache`, also if another pod answered; empty if nothing was looked up",
	},
	{"disk", "$disk", false, "the disk of the key"},
	{
		fieldOriginSeconds, "$origin_seconds", false,
		"time that the origin took for its response, or for the first slice; empty if this pod did not ask it",
	},
	{"referer", "$http_referer", false, "the header `Referer`"},
	{"userAgent", "$http_user_agent", false, "the header `User-Agent`"},
	{"forwardedFor", "$http_x_forwarded_for", false, "the header `X-Forwarded-For`, as the client sent it"},
	{"requestId", "$request_id", false, "a random number of the request, in 32 hexadecimal digits"},
	{
		fieldHop, "", false,
		"as `X-Cache-Hop`: who answered this pod, `peer` or `standin` for another pod, `memory`, or `none`",
	},
	{
		fieldHopSeconds, "", false,
		"time that the other pod took, with what the origin took if that pod asked it; empty if no other pod answered",
	},
}

// The fields whose values are different if another pod answered. That pod reports how it got the response, but not
// how long the origin took.
const (
	fieldCache         = "cache"
	fieldOriginSeconds = "originSeconds"
	fieldHop           = "hop"
	fieldHopSeconds    = "hopSeconds"
	hopSeconds         = "$hop_seconds"
)

// noHop is the X-Cache-Hop of responses that come from this pod.
const noHop = "none"

// isJSON returns true if the access log is JSON.
func (n node) isJSON() bool { return n.Spec.Logs.Format == "JSON" }

// logFormat returns the format of the access log for the requests of a location with a tag.
func (n node) logFormat(tag string) string {
	switch {
	case !n.isJSON():
		return "combined"
	case isHop(tag), tag == agentapi.TagMemory:
		return jsonFormat + "_" + tag
	}
	return jsonFormat
}

// isHop returns true for the tag of requests that another pod answers.
func isHop(tag string) bool { return tag == agentapi.TagPeer || tag == agentapi.TagStandIn }

// valueIn returns the value of a field in the format for a tag.
func (f LogField) valueIn(tag string) string {
	switch {
	case f.Name == fieldHop && (isHop(tag) || tag == agentapi.TagMemory):
		return tag
	case f.Name == fieldHop:
		return noHop
	case f.Name == fieldCache && isHop(tag):
		return statusInAnswer
	case f.Name == fieldHopSeconds && isHop(tag):
		return hopSeconds
	case f.Name == fieldOriginSeconds && isHop(tag):
		return ""
	}
	return f.Variable
}

// format returns the JSON log format for a tag.
func (r reports) format(tag string) conf.Directive {
	fields := make([]string, len(LogFields))
	for i, f := range LogFields {
		fields[i] = `"` + f.Name + `":"` + f.valueIn(tag) + `"`
		if f.IsNumber {
			fields[i] = `"` + f.Name + `":` + f.valueIn(tag)
		}
	}
	return conf.D("log_format", conf.Literal(r.logFormat(tag)), conf.Literal("escape=json"),
		conf.Expression("{"+strings.Join(fields, ",")+"}"))
}

// jsonLog returns the JSON log formats. A status below 100 would be no valid number in JSON, because nginx writes
// three digits.
func (r reports) jsonLog() conf.Block {
	block := conf.Block{
		// $upstream_response_time is a list that begins with the time of the lookup in memory. The map takes the last time
		// in the list.
		conf.Map("$upstream_cache_status:$upstream_response_time", "$origin_seconds",
			conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~^(?:HIT|STALE|UPDATING):"), conf.Literal("")),
			conf.Row(conf.Expression("~(?<last_time>[0-9]+[.][0-9]+)$"), conf.Expression("$last_time"))),
		conf.Map("$status", "$status_number",
			conf.D("default", conf.Literal("0")), conf.Row(conf.Expression("~^[1-9]"), conf.Expression("$status"))),
		r.format(agentapi.TagCached),
	}
	if r.hasMemoryTier() {
		block = append(block, r.format(agentapi.TagMemory))
	}
	if r.hops() {
		block = append(block,
			conf.Map("$upstream_response_time", hopSeconds,
				conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~([0-9]+[.][0-9]+)$"), conf.Expression("$1"))),
			r.format(agentapi.TagPeer), r.format(agentapi.TagStandIn))
	}
	return block
}
