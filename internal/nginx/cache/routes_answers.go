package cache

import (
	"fmt"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// answers returns the directives that answer requests without a backend.
func (r routed) answers() (block conf.Block) {
	if r.isSecure() {
		block = conf.Block{ifSet(isMisdirected, conf.D("return", conf.Literal("421")))}
	}
	return append(block,
		ifEqual(routemap.Rule, "", conf.D("return", conf.Literal("404"))),
		ifEqual(routemap.Rule, noBackend, conf.D("return", conf.Literal("500"))),
		ifSet(redirected301, conf.D("return", conf.Literal("301"), conf.Expression(redirected301))),
		ifSet(redirected302, conf.D("return", conf.Literal("302"), conf.Expression(redirected302))),
	)
}

// redirects returns the maps for the Location headers of redirects. The path and the query stay as the client wrote
// them.
func (r routed) redirects() conf.Block {
	rows := map[int]conf.Block{}
	for i, route := range r.Routes.Routes {
		for j, rule := range route.Rules {
			if to := rule.Redirect; to != nil {
				key := redirection(r.Routes, routes.Use{Route: i, Rule: j})
				rows[to.Status] = append(rows[to.Status], conf.Row(key, location3xx(*to)))
			}
		}
	}
	none := conf.D("default", conf.Literal(""))
	return conf.Block{
		portIfUnusual(80), portIfUnusual(443),
		conf.Map(routemap.Rule, redirected301, append(conf.Block{none}, rows[301]...)...),
		conf.Map(routemap.Rule, redirected302, append(conf.Block{none}, rows[302]...)...),
	}
}

// redirection returns the value of [routemap.Rule] for a rule that is a redirect. It does not depend on the policy.
func redirection(of routes.Table, use routes.Use) conf.Literal {
	use.Policy = ""
	return conf.Literal(redirectTo + of.ID(use))
}

// location3xx returns the Location header of a redirect. The host in it has the syntax of a host name; see
// routes.Redirect.
func location3xx(to routes.Redirect) conf.Argument {
	scheme, host, port := "$scheme", "$host", ""
	switch {
	case to.Scheme == "" && (to.Port == 80 || to.Port == 443):
		port = unusualPort(to.Port)
	case to.Port != 0 && to.Port != defaultPorts[to.Scheme]:
		port = fmt.Sprintf(":%d", to.Port)
	case to.Port == 0 && to.Scheme == "":
		port = portOfListener
	}
	if to.Scheme == "http" || to.Scheme == "https" {
		scheme = to.Scheme
	}
	if isHostName(to.Host) {
		host = to.Host
	}
	return conf.Expression(scheme + "://" + host + port + "$request_uri")
}

// defaultPorts are the ports that a URL of a scheme need not name.
var defaultPorts = map[string]int32{"http": 80, "https": 443}

// unusualPort returns the variable with a colon and a port, or with "" if it is the default port of the request's
// scheme.
func unusualPort(port int32) string { return fmt.Sprintf("$unless_default_port_%d", port) }

// portIfUnusual returns the map that defines unusualPort.
func portIfUnusual(port int32) conf.Directive {
	rows := conf.Block{conf.D("default", conf.Literal(fmt.Sprintf(":%d", port)))}
	for scheme, usual := range defaultPorts {
		if usual == port {
			rows = append(rows, conf.Row(conf.Literal(scheme), conf.Literal("")))
		}
	}
	return conf.Map("$scheme", conf.Expression(unusualPort(port)), rows...)
}

// isHostName returns true for a text of letters, digits, hyphens and dots. nginx uses such a text unchanged.
func isHostName(text string) bool {
	return text != "" && strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}
