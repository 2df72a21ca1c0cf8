package routes

import (
	"cmp"
	"strings"
)

// Host is a pattern for the host of a request, in lower case: a name such as www.example.com, a wildcard such as
// *.example.com, or "" for any host. A wildcard stands for one or more labels.
type Host string

// MaxWildcardLabels is the maximum number of labels of a wildcard. Requests for a host can fall through from each
// wildcard to a shorter one, and nginx cannot do this very often.
const MaxWildcardLabels = 12

// IsTooDeep returns true for a wildcard with more labels than the maximum.
func (h Host) IsTooDeep() bool {
	return h.IsWildcard() && strings.Count(string(h), ".") >= MaxWildcardLabels
}

// IsWildcard returns true if the pattern begins with a wildcard.
func (h Host) IsWildcard() bool { return strings.HasPrefix(string(h), "*.") }

// Covers returns true if this pattern accepts every host that the other pattern accepts. If the other pattern is the
// name of a host, this means that this pattern accepts that host.
func (h Host) Covers(other Host) bool {
	if h == "" || h == other {
		return true
	}
	return h.IsWildcard() && other != "" && strings.HasSuffix(string(other), string(h[1:]))
}

// wider returns the narrowest other pattern that accepts all hosts of this pattern. The pattern is not "".
func (h Host) wider() Host {
	_, rest, ok := strings.Cut(strings.TrimPrefix(string(h), "*."), ".")
	if !ok {
		return ""
	}
	return Host("*." + rest)
}

// Both returns the pattern of the hosts that both patterns accept. ok is false if there are no such hosts.
func (h Host) Both(other Host) (both Host, ok bool) {
	switch {
	case h.Covers(other):
		return other, true
	case other.Covers(h):
		return h, true
	default:
		return "", false
	}
}

// compare returns a negative number if this pattern takes precedence over the other pattern. A name takes precedence
// over a wildcard, and a longer pattern takes precedence over a shorter pattern.
func (h Host) compare(other Host) int {
	rank := func(h Host) int {
		switch {
		case h == "":
			return 2
		case h.IsWildcard():
			return 1
		default:
			return 0
		}
	}
	return cmp.Or(cmp.Compare(rank(h), rank(other)), -cmp.Compare(len(h), len(other)), cmp.Compare(h, other))
}
