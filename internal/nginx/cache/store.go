package cache

import (
	"slices"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// store is the part of the configuration that answers from the disks of the pod. If no disk can serve a request, it
// answers from the origin.
type store struct{ door }

// uncached returns the location for requests that no disk can serve. It passes them on to the origin. The gateway
// limits the number of such requests.
func (s store) uncached(name string, more ...conf.Directive) conf.Directive {
	block := append(s.throughGateway(gatewayOrOrigin+s.passedURI()), falls(conf.Expression(fallsBackHere)))
	block = append(block, s.asksNothing()...)
	block = append(block, s.logs(agentapi.TagUncached)...)
	block = append(block, s.headers(conf.Literal("UNCACHED"), conf.Expression(diskVariable))...)
	if s.toPeers && s.backend.asksAgain() { // the gateway closes the connection, see unready
		block = append(block, conf.D("error_page", conf.Literal("502"), conf.Literal("="), conf.Literal(broken)),
			conf.D("recursive_error_pages", conf.OnOff(true)))
	}
	return location(name, append(block, more...)...)
}

// past returns the location for requests that bypass the caches. They reach the origin unchanged, with their method,
// arguments, range and conditions. No disk is involved, so a disk that fails does not affect them. A request that is
// not idempotent reaches the origin only once.
func (s store) past(name string, more ...conf.Directive) conf.Directive {
	block := append(s.throughGateway(s.entry.url()), s.asksNothing()...)
	block = append(append(block, logsRejection()), s.logs(agentapi.TagPassed)...)
	block = append(block, s.headers(conf.Literal("BYPASS"), conf.Expression(diskVariable))...)
	return location(name, append(block, more...)...)
}

// unanswered returns the location noResponse; see redirects.
func (s store) unanswered() conf.Directive {
	return location(noResponse, slices.Concat(
		s.logs(agentapi.TagPassed), s.headers(conf.Literal("BYPASS"), conf.Expression(diskVariable)),
		conf.Block{conf.D("return", conf.Literal("502"))})...)
}
