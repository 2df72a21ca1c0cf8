package cache

import (
	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// dropsCookies is 1 for a response whose Set-Cookie the script removes. sentCookies contains the cookies that the
	// gateway sends to the cache.
	dropsCookies = "$drops_cookies"
	sentCookies  = "$sent_cookies"
	givenCookies = "$upstream_http_set_cookie"
)

// ignoresCookies returns true if rules ignore Set-Cookie.
func ignoresCookies(r v1alpha1.CacheRules) bool { return r.Ignores(v1alpha1.IgnoreSetCookie) }

// removesCookies returns true if the script removes Set-Cookie from some responses. No directive of nginx removes a
// header under a condition.
func (s site) removesCookies() bool {
	return s.Facts.Scripts && (ignoresCookies(s.Cache.CacheRules) || s.anyPolicy(ignoresCookies))
}

// cookieMaps returns the maps for dropsCookies and sentCookies. Responses to requests that bypass the caches keep their
// cookies.
func (m gatewayMaps) cookieMaps() conf.Block {
	if !m.removesCookies() {
		return nil
	}
	return append(m.droppedCookies(), conf.Map(conf.Expression(dropsCookies+":"+givenCookies), sentCookies,
		conf.D("default", conf.Expression(givenCookies)), conf.Row(conf.Expression("~^1:"), conf.Literal(""))))
}

// droppedCookies returns the maps for dropsCookies.
func (s site) droppedCookies() conf.Block {
	if s.policies != nil {
		return s.byPolicy(site.droppedCookies, selected{dropsCookies, conf.Literal("")})
	}
	if !ignoresCookies(s.Cache.CacheRules) {
		return nil
	}
	return conf.Block{conf.Map(diskInRequest, dropsCookies,
		conf.Row(conf.Literal(""), conf.Literal("")), conf.D("default", conf.Literal("1")))}
}

// cookies returns the variable with the cookies that the gateway sends to the cache.
func (s site) cookies() conf.Expression {
	if s.removesCookies() {
		return sentCookies
	}
	return givenCookies
}
