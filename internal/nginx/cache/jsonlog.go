package cache

import (
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// jsonFormat is the name of the log format with JSON.
const jsonFormat = "cachenode_json"

// LogField is a field of a line of the access log in JSON.
type LogField struct {
	// Name is the field's name, Variable the nginx variable with its value.
	Name, Variable string
	// IsNumber is false for a string.
	IsNumber bool
	// Note says what the value is, for the reference documentation.
	Note string
}

// LogFields are the fields of the access log in JSON, in order.
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
	{"cache", "$upstream_cache_status", false, "as `X-Cache`; empty if nothing was looked up"},
	{"disk", "$disk", false, "the disk of the key"},
	{
		"originSeconds", "$origin_seconds", false,
		"time that the origin took for its response, or for the first slice; empty if it was not asked",
	},
	{"referer", "$http_referer", false, "the header `Referer`"},
	{"userAgent", "$http_user_agent", false, "the header `User-Agent`"},
	{"forwardedFor", "$http_x_forwarded_for", false, "the header `X-Forwarded-For`, as the client sent it"},
	{"requestId", "$request_id", false, "a random number of the request, in 32 hexadecimal digits"},
}

func (r renderer) logFormat() string {
	if r.Spec.Logs.Format == "JSON" {
		return jsonFormat
	}
	return "combined"
}

// jsonLog is the log format with JSON. A status below 100 is no number in JSON, as nginx writes three digits.
func jsonLog() conf.Block {
	fields := make([]string, len(LogFields))
	for i, f := range LogFields {
		fields[i] = `"` + f.Name + `":"` + f.Variable + `"`
		if f.IsNumber {
			fields[i] = `"` + f.Name + `":` + f.Variable
		}
	}
	return conf.Block{
		// The lookup in memory has a time too, the first in the list.
		conf.B("map",
			[]conf.Argument{
				conf.Expression("$upstream_cache_status:$upstream_response_time"), conf.Expression("$origin_seconds"),
			},
			conf.D("default", conf.Literal("")), conf.Row(conf.Expression("~^(?:HIT|STALE|UPDATING):"), conf.Literal("")),
			conf.Row(conf.Expression("~(?<last_time>[0-9]+[.][0-9]+)$"), conf.Expression("$last_time"))),
		conf.B("map", []conf.Argument{conf.Expression("$status"), conf.Expression("$status_number")},
			conf.D("default", conf.Literal("0")), conf.Row(conf.Expression("~^[1-9]"), conf.Expression("$status"))),
		conf.D("log_format", conf.Literal(jsonFormat), conf.Literal("escape=json"),
			conf.Expression("{"+strings.Join(fields, ",")+"}")),
	}
}
