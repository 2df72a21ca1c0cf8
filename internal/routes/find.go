package routes

import (
	"encoding/hex"
	"slices"
	"strings"
)

// Request contains the properties of a request that determine which rule answers it.
type Request struct {
	// Host is the host in lower case, without a port. Path is the path as in nginx's variable $uri. Query is the text
	// after the first question mark.
	Host, Method, Path, Query string
	// Headers are the values of the headers, by name in lower case. If a header was sent several times, its values are
	// joined by a comma and a space.
	Headers map[string]string
}

// Find returns the position of the virtual host to which the request belongs, and the candidate that answers it. vhost
// is -1 if no listener accepts the host. candidate is nil if no route answers the request.
func Find(hosts []VirtualHost, r Request) (vhost int, candidate *Candidate) {
	vhost = slices.IndexFunc(hosts, func(v VirtualHost) bool { return v.Host.Covers(Host(r.Host)) })
	for i := vhost; i >= 0; i = hosts[i].Next {
		for j := range hosts[i].Candidates {
			if c := &hosts[i].Candidates[j]; c.Accepts(r) {
				return vhost, c
			}
		}
	}
	return vhost, nil
}

// Accepts returns true if the request meets the match.
func (m Match) Accepts(r Request) bool {
	if !m.Path.accepts(r.Path) || m.Method != "" && m.Method != r.Method {
		return false
	}
	for _, h := range m.Headers {
		if r.Headers[strings.ToLower(h.Name)] != h.Value {
			return false
		}
	}
	for _, q := range m.Query {
		if value, ok := argument(r.Query, q.Name); !ok || value != q.Value {
			return false
		}
	}
	return true
}

func (p Path) accepts(path string) bool {
	if p.Exact {
		return path == p.Value
	}
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(p.Value, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// argument returns the value of the first argument with the given name.
func argument(query, name string) (value string, ok bool) {
	for part := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(part, "=")
		if unescape(key) == name {
			return unescape(value), true
		}
	}
	return "", false
}

// unescape decodes a name or a value of the query. A percent sign without two hexadecimal digits after it stays
// unchanged.
func unescape(text string) string {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '+':
			plain.WriteByte(' ')
		case '%':
			if b, err := hex.DecodeString(text[i+1 : min(i+3, len(text))]); err == nil && len(b) == 1 {
				c = b[0]
				i += 2
			}
			plain.WriteByte(c)
		default:
			plain.WriteByte(c)
		}
	}
	return plain.String()
}
