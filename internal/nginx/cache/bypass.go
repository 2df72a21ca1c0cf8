package cache

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// passVariable is 1 for requests that no cache may answer or store. These are requests with another method, with a
	// body, or with credentials, and requests that bypass the caches by the spec. pass is the location that passes such
	// requests on.
	passVariable = "$passes"
	pass         = "@pass"
	// hereVariable contains the location of this pod that answers a request.
	hereVariable = "$here"
	// bypassVariable is not empty for requests that bypass the caches by cache.bypass. bypassCookie is not empty for
	// requests with one of the cookies in cache.bypass.
	bypassVariable = "$is_bypass"
	bypassCookie   = "$bypass_cookie"
)

// bypass returns the variable for requests that bypass the caches by the spec; "" if there are no such requests.
func (s site) bypass() conf.Expression {
	hasBypass := func(r v1alpha1.CacheRules) bool { return r.Bypass != nil }
	if hasBypass(s.Cache.CacheRules) || s.anyPolicy(hasBypass) {
		return bypassVariable
	}
	return ""
}

// passes returns the map for passVariable.
func (k core) passes() conf.Directive {
	cached := "GET|HEAD" // nginx always caches them
	if slices.Contains(k.Cache.Methods, "POST") {
		cached += "|POST"
	}
	unlike := conf.Expression("$request_method:" + credentialsVariable + bodyVariable)
	if k.ofRoutes {
		unlike += unusualHost
	}
	return conf.Map(unlike+k.bypass(), passVariable,
		conf.D("default", conf.Literal("1")),
		conf.Row(conf.Expression("~^(?:"+cached+"):$"), conf.Literal("")))
}

// here returns the map for hereVariable.
func (k core) here() conf.Directive {
	past := conf.Row(conf.Expression("~:1$"), conf.Literal(pass))
	rows := conf.Block{
		conf.D("default", conf.Literal(onDisk)), past, conf.Row(conf.Literal("HEAD:"), conf.Literal(onDiskHead)),
	}
	switch {
	case len(k.disks) == 0:
		rows = conf.Block{conf.D("default", conf.Literal(uncached)), past}
	case k.noticesMixed():
		rows = append(rows, conf.Row(conf.Literal("GET:"), conf.Expression(unlessMixed)))
	}
	return conf.Map("$request_method:"+passVariable, hereVariable, rows...).
		WithComment("Which location of this pod answers a request.")
}

// bypassMaps returns the maps for bypassVariable.
func (s site) bypassMaps() conf.Block {
	if s.policies != nil {
		return s.byPolicy(site.bypassMaps, selected{bypassVariable, conf.Literal("")})
	}
	b := s.Cache.Bypass
	if b == nil {
		return nil
	}
	var block conf.Block
	var values conf.Expression
	if len(b.Cookies) > 0 {
		values = bypassCookie
		names := alternatives(b.Cookies, "[^=;,]*") // lenient servers also accept commas as separators
		block = append(block, conf.Map("$http_cookie", bypassCookie,
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression(`~(?:^|[;,])\s*`+names+`\s*(?:[=;,]|$)`), conf.Literal("1"))))
	}
	for _, name := range b.Headers { // letters, digits and dashes
		values += conf.Expression("$http_" + strings.ReplaceAll(strings.ToLower(string(name)), "-", "_"))
	}
	return append(block, conf.Map(values, bypassVariable,
		conf.Row(conf.Literal(""), conf.Literal("")), conf.D("default", conf.Literal("1"))))
}
