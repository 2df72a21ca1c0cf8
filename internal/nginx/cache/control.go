package cache

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// originHeader contains the Cache-Control that clients get, or noControl if they get none. It is the origin's own
	// Cache-Control without ignored directives. A response that was stored before the gateway existed has no such header.
	originHeader    = "X-CacheNode-Cache-Control"
	originInAnswer  = "$upstream_http_x_cachenode_cache_control"
	noControl       = "-"
	controlInAnswer = "$upstream_http_cache_control"

	// originVariable contains the value of originHeader. controlVariable contains the Cache-Control that applies to the
	// cache. storedVariable contains the Cache-Control that the gateway sends to the cache. clientVariable contains the
	// Cache-Control that clients get.
	originVariable  = "$origin_control"
	controlVariable = "$control"
	storedVariable  = "$stored_control"
	clientVariable  = "$client_control"
	// givenControl is controlVariable with the ignored directives. controlToClients is the Cache-Control of the response
	// without the ignored directives.
	givenControl     = "$given_control"
	controlToClients = "$control_to_clients"
	// strictVariable is not empty for objects that may not be served stale.
	strictVariable = "$must_revalidate"
	strict         = "~*(?:must-revalidate|proxy-revalidate|s-maxage)"

	// member and dictionary match a structured field (RFC 8941). CDN-Cache-Control counts only if it is a structured
	// field.
	member     = `[a-z*][a-z0-9_.*-]*(?:=(?:[0-9.-]+|"[^"]*"|[a-z*][^ ,;"]*|[?][01]|:[^:]*:))?(?:;[^,]*)?`
	dictionary = `^\s*` + member + `(?:\s*,\s*` + member + `)*\s*$`
)

// controlMaps returns the maps that evaluate Cache-Control.
func (m gatewayMaps) controlMaps() conf.Block {
	const control = conf.Expression(controlVariable)
	given, toClients := control, conf.Expression(controlInAnswer)
	if ignoresControl(m.Cache.CacheRules) || m.anyPolicy(ignoresControl) {
		given, toClients = givenControl, controlToClients
	}
	windows, block := m.staleWindows()
	return append(append(block, m.ignoredMaps()...),
		conf.Map("$upstream_http_cdn_cache_control", given,
			conf.D("default", conf.Expression(controlInAnswer)),
			conf.Row(conf.Expression("~*"+dictionary), conf.Expression("$upstream_http_cdn_cache_control"))),
		conf.Map(control, storedVariable,
			conf.Row(conf.Literal(""), windows.alone),
			conf.Row(conf.Expression(strict), control),
			conf.Row(conf.Expression("~*(?:no-store|no-cache|private)"), control),
			conf.Row(conf.Expression("~*stale-while-revalidate.*stale-if-error"), control),
			conf.Row(conf.Expression("~*stale-if-error.*stale-while-revalidate"), control),
			conf.Row(conf.Expression("~*stale-while-revalidate"), control+windows.ifError),
			conf.Row(conf.Expression("~*stale-if-error"), control+windows.whileRevalidate),
			conf.D("default", control+windows.both)),
		conf.Map(toClients, originVariable,
			conf.Row(conf.Literal(""), conf.Literal(noControl)), conf.D("default", toClients)),
		clientControl())
}

// clientControl gives clients the Cache-Control in originHeader.
func clientControl() conf.Directive {
	answers := conf.Expression(originInAnswer)
	return conf.Map(answers, clientVariable,
		conf.Row(conf.Literal(""), conf.Expression(controlInAnswer)),
		conf.Row(conf.Literal(noControl), conf.Literal("")),
		conf.D("default", answers))
}

// windows are the directives of RFC 5861 that are added to a Cache-Control without them. Each is "" if the spec
// switches it off. alone contains both, for a response without Cache-Control. The others begin with a comma.
type windows struct{ alone, both, whileRevalidate, ifError conf.Expression }

// windowVariables are the variables with the windows, if they depend on the policy of a request.
var windowVariables = windows{"$stale_windows", "$added_stale_windows", "$added_stale_while", "$added_stale_if_error"}

func windowsOf(c v1alpha1.CacheRules) (w windows) {
	if s := int64(effective.Duration(c.StaleWhileRevalidate).Seconds()); s > 0 {
		w.whileRevalidate = conf.Expression(fmt.Sprintf(", stale-while-revalidate=%d", s))
	}
	if s := int64(effective.Duration(c.StaleIfError).Seconds()); s > 0 {
		w.ifError = conf.Expression(fmt.Sprintf(", stale-if-error=%d", s))
	}
	w.both = w.whileRevalidate + w.ifError
	w.alone = conf.Expression(strings.TrimPrefix(string(w.both), ", "))
	return w
}

// staleWindows returns the windows of the site, and the maps that define them if they depend on the policy.
func (m gatewayMaps) staleWindows() (windows, conf.Block) {
	own := windowsOf(m.Cache.CacheRules)
	differ := func(r v1alpha1.CacheRules) bool { return windowsOf(r) != own }
	if !m.anyPolicy(differ) {
		return own, nil
	}
	names := windowVariables
	of := func(s site) conf.Block {
		w := windowsOf(s.Cache.CacheRules)
		if w == own {
			return nil
		}
		text := func(variable, value conf.Expression) conf.Directive {
			return conf.Map("", variable, conf.D("default", value))
		}
		return conf.Block{
			text(names.alone, w.alone), text(names.both, w.both), text(names.whileRevalidate, w.whileRevalidate),
			text(names.ifError, w.ifError),
		}
	}
	return names, m.byPolicy(of, selected{names.alone, own.alone}, selected{names.both, own.both},
		selected{names.whileRevalidate, own.whileRevalidate}, selected{names.ifError, own.ifError})
}

// directives are the directives of Cache-Control that can be ignored.
var directives = map[v1alpha1.Ignored]string{
	v1alpha1.IgnoreNoStore: "no-store", v1alpha1.IgnorePrivate: "private", v1alpha1.IgnoreNoCache: "no-cache",
}

// ignoresControl returns true if rules ignore directives of Cache-Control.
func ignoresControl(r v1alpha1.CacheRules) bool {
	return slices.ContainsFunc(r.Ignore, func(i v1alpha1.Ignored) bool { return directives[i] != "" })
}

// ignoredMaps returns the maps that remove ignored directives from Cache-Control: from the one that applies to the
// cache, and from the one that clients get. Responses to requests that bypass the caches stay as they are.
func (s site) ignoredMaps() conf.Block {
	if s.policies != nil {
		return s.byPolicy(site.ignoredMaps, selected{controlVariable, conf.Expression(givenControl)},
			selected{controlToClients, conf.Expression(controlInAnswer)})
	}
	if !ignoresControl(s.Cache.CacheRules) {
		return nil
	}
	return append(s.without(givenControl, controlVariable), s.without(controlInAnswer, controlToClients)...)
}

// without returns the maps that remove the ignored directives from the Cache-Control in a variable. Each directive has
// a map of its own, and the last map removes commas at the end.
func (s site) without(from, variable conf.Expression) (block conf.Block) {
	step := func(i int) conf.Expression { return conf.Expression(fmt.Sprintf("%s_without_%d", variable, i)) }
	value := from
	for i, what := range s.Cache.Ignore {
		if directives[what] == "" {
			continue
		}
		before, after := fmt.Sprintf("before_%d", i), fmt.Sprintf("after_%d", i)
		block = append(block, conf.Map(conf.Expression(diskInRequest+"|")+value, step(i),
			conf.D("default", value),
			conf.Row(conf.Expression(fmt.Sprintf(`~*^[^|]+[|](?<%s>(?:.*,)?\s*)%s(?:\s*=\s*"[^"]*")?\s*(?:,\s*(?<%s>.*))?$`,
				before, directives[what], after)), conf.Expression("$"+before+"$"+after))))
		value = step(i)
	}
	return append(block, conf.Map(value, variable,
		conf.D("default", value), conf.Row(conf.Expression(`~^(?<kept>.*[^,\s])?[,\s]+$`), conf.Expression("$kept"))))
}
