package routes

import (
	"path"
	"strings"
)

// Answer is the candidate that answers a request at a listener of a Gateway.
type Answer struct {
	VirtualHost
	Candidate
}

// Answers returns what answers a request at a port of the Gateways' addresses: one entry for each Gateway that has the
// port and a route for the request.
func (t Table) Answers(port int32, r Request) (answers []Answer) {
	seen := map[int32]bool{}
	for _, l := range t.Listeners {
		if seen[l.PodPort] || l.Port != port {
			continue
		}
		seen[l.PodPort] = true
		hosts := t.VirtualHosts(l.PodPort)
		if at, c := Find(hosts, r); c != nil {
			answers = append(answers, Answer{hosts[at], *c})
		}
	}
	return answers
}

// NormalPath returns a path in the form of nginx's variable $uri: without dot segments and empty segments. The path is
// decoded already.
func NormalPath(of string) string {
	clean := path.Clean("/" + of)
	if strings.HasSuffix(of, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}
