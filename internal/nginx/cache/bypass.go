package cache

import (
	"slices"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// passVariable is 1 for requests that no cache may answer or store: those of other methods, with a body, with
	// credentials, or that the spec has bypass the caches. pass is the location that passes them on.
	passVariable = "$passes"
	pass         = "@pass"
	// hereVariable is the location of this pod that answers a request.
	hereVariable = "$here"
	// bypassVariable is not empty for requests that the spec has bypass the caches, bypassCookie for those with a cookie.
	bypassVariable = "$is_bypass"
	bypassCookie   = "$bypass_cookie"
)

// bypass is the variable for requests that the spec has bypass the caches, or nothing.
func (r renderer) bypass() conf.Expression {
	if r.Spec.Cache.Bypass == nil {
		return ""
	}
	return bypassVariable
}

// passes is the map for passVariable.
func (r renderer) passes() conf.Directive {
	cached := "GET|HEAD" // nginx always caches them
	if slices.Contains(r.Spec.Cache.Methods, "POST") {
		cached += "|POST"
	}
	return conf.B("map",
		[]conf.Argument{
			conf.Expression("$request_method:"+credentialsVariable+bodyVariable) + r.bypass(),
			conf.Expression(passVariable),
		},
		conf.D("default", conf.Literal("1")),
		conf.Row(conf.Expression("~^(?:"+cached+"):$"), conf.Literal("")))
}

// here is the map for hereVariable.
func (r renderer) here() conf.Directive {
	here := conf.B("map",
		[]conf.Argument{conf.Expression("$request_method:" + passVariable), conf.Expression(hereVariable)},
		conf.D("default", conf.Literal(onDisk)),
		conf.Row(conf.Expression("~:1$"), conf.Literal(pass)),
		conf.Row(conf.Literal("HEAD:"), conf.Literal(onDiskHead)))
	if r.noticesMixed() {
		here.Block = append(here.Block, conf.Row(conf.Literal("GET:"), conf.Expression(unlessMixed)))
	}
	if len(r.disks) == 0 {
		here.Block = conf.Block{
			conf.D("default", conf.Literal(uncached)), conf.Row(conf.Expression("~:1$"), conf.Literal(pass)),
		}
	}
	here.Comment = "Which location of this pod answers a request."
	return here
}

// past is the location for requests past the caches. They reach the origin as they came: with their method, arguments,
// range and conditions. No disk takes part, so none can fail them. What is not idempotent reaches the origin once.
func (r renderer) past() conf.Directive {
	block := append(r.throughGateway(""), r.asksNothing()...)
	block = append(append(block, logsRejection()), r.logs(agentapi.TagPassed)...)
	block = append(block, r.headers(conf.Literal("BYPASS"), conf.Expression(diskVariable))...)
	return conf.B("location", conf.Literals(pass), block...)
}

// unanswered is the location for a client whose request the origin has not answered: see redirects.
func (r renderer) unanswered() conf.Directive {
	return conf.B("location", conf.Literals(noResponse), slices.Concat(
		r.logs(agentapi.TagPassed), r.headers(conf.Literal("BYPASS"), conf.Expression(diskVariable)),
		conf.Block{conf.D("return", conf.Literal("502"))})...)
}

func (r renderer) bypassMaps() conf.Block {
	b := r.Spec.Cache.Bypass
	if b == nil {
		return nil
	}
	var block conf.Block
	var values conf.Expression
	if len(b.Cookies) > 0 {
		values = bypassCookie
		names := alternatives(b.Cookies, "[^=;,]*") // also as servers read it that are not strict
		block = append(block, conf.B("map", []conf.Argument{conf.Expression("$http_cookie"), conf.Expression(bypassCookie)},
			conf.D("default", conf.Literal("")),
			conf.Row(conf.Expression(`~(?:^|[;,])\s*`+names+`\s*(?:[=;,]|$)`), conf.Literal("1"))))
	}
	for _, name := range b.Headers { // letters, digits and dashes
		values += conf.Expression("$http_" + strings.ReplaceAll(strings.ToLower(string(name)), "-", "_"))
	}
	return append(block, conf.B("map", []conf.Argument{values, conf.Expression(bypassVariable)},
		conf.Row(conf.Literal(""), conf.Literal("")), conf.D("default", conf.Literal("1"))))
}
