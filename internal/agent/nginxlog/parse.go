// Package nginxlog reads the lines that nginx sends to the log socket. These are lines about requests, in the formats
// RequestFormat, HopFormat and UnsafeFormat of agentapi, and the lines of the error log.
//
// It imports agentapi, layout and naming. A new value in nginx's lines needs a variable in a format in agentapi, and
// a field in Request.
package nginxlog

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
)

// Request is a request that nginx has answered.
type Request struct {
	// Tag is one of the tags of agentapi, except TagError and TagUnsafe.
	Tag  string
	Disk string
	// Cache is $upstream_cache_status; "" if nginx looked up nothing in a cache.
	Cache  string
	Status int
	// Bytes are the bytes sent to the client, header included.
	Bytes int64
	// FirstByte and Duration have a resolution of a millisecond, as in nginx.
	FirstByte, Duration time.Duration
	// Rejected is true if nginx refused the request because too many requests that bypass their own disk were in
	// progress (origin.fallbackConcurrency).
	Rejected bool
	// Owner is the ordinal of the pod that owns the key. StandIn is the ordinal of the owner's stand-in. Both are text.
	// They are set only if another pod answered, or should have answered. StandIn is "" if there is no stand-in.
	Owner, StandIn string
	// SkipsOwner is true if nginx did not ask the owner, because the owner had not answered earlier requests.
	SkipsOwner bool
}

// Split splits a syslog datagram (RFC 3164, without a host name) into tag and text: "<190>Nov 21 13:45:21 tag: text".
func Split(datagram string) (tag, text string, ok bool) {
	const stamp = len("Nov 21 13:45:21 ")
	_, rest, ok := strings.Cut(datagram, ">")
	if !ok || len(rest) < stamp {
		return "", "", false
	}
	return strings.Cut(rest[stamp:], ": ")
}

// ParseRequest parses the text of a log line about a request. ok is false if the text does not have the format that
// belongs to the tag.
func ParseRequest(tag, text string) (r Request, ok bool) {
	words, format := strings.Split(text, " "), agentapi.RequestFormat
	overHop := tag == agentapi.TagPeer || tag == agentapi.TagStandIn || tag == agentapi.TagAlone
	if overHop {
		format = agentapi.HopFormat
	}
	if len(words) != len(strings.Split(format, " ")) {
		return Request{}, false
	}
	r = Request{Tag: tag, Disk: words[0], Rejected: words[6] == "REJECTED"}
	if words[1] != "-" {
		r.Cache = words[1]
	}
	var err error
	if r.Status, err = strconv.Atoi(words[2]); err != nil {
		return Request{}, false
	}
	if r.Bytes, err = strconv.ParseInt(words[3], 10, 64); err != nil || r.Bytes < 0 {
		return Request{}, false
	}
	if r.FirstByte, ok = seconds(words[4]); !ok {
		return Request{}, false
	}
	if overHop {
		if r.Owner, ok = ordinal(words[7]); !ok {
			return Request{}, false
		}
		if r.StandIn, ok = ordinal(words[8]); !ok && words[8] != "-" && words[8] != "" {
			return Request{}, false
		}
		r.SkipsOwner = words[9] == "1"
	}
	r.Duration, ok = seconds(words[5])
	return r, ok && isName(r.Disk) && isCacheStatus(r.Cache)
}

// ordinal returns the ordinal from the name that a pod has in a plan, see package fleet.
func ordinal(word string) (text string, ok bool) {
	if !pod.MatchString(word) {
		return "", false
	}
	return word[1:], true
}

// seconds parses a time such as "0.012"; "-" is 0.
func seconds(word string) (time.Duration, bool) {
	if word == "-" {
		return 0, true
	}
	value, err := strconv.ParseFloat(word, 64)
	if err != nil || !(value >= 0 && value <= 1e8) { // this form rejects NaN too
		return 0, false
	}
	return time.Duration(value * float64(time.Second)), true
}

var pod = regexp.MustCompile(`^p(0|[1-9][0-9]{0,4})$`)

var name = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)

func isName(disk string) bool { return disk == agentapi.NoDisk || name.MatchString(disk) }

// isCacheStatus reports whether a status is one of those that nginx and the configurations of other pods use.
// ParseRequest does not accept other statuses, so that no line can create an unknown label of a metric.
func isCacheStatus(s string) bool {
	switch s {
	case "", "UNCACHED", "MISS", "BYPASS", "EXPIRED", "STALE", "UPDATING", "REVALIDATED", "HIT":
		return true
	}
	return false
}
