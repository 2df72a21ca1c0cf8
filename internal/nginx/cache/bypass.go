package cache

import (
	"strings"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
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

// bypassing are the conditions on which a request bypasses the caches.
func (r renderer) bypassing() []conf.Argument {
	conditions := []conf.Argument{conf.Expression(credentialsVariable), conf.Expression(bodyVariable)}
	if variable := r.bypass(); variable != "" {
		conditions = append(conditions, variable)
	}
	return conditions
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
