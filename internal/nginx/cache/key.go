package cache

import (
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// cacheKey returns the cache key in the form of nginx's configuration.
func (s site) cacheKey() conf.Expression {
	key := s.mark()
	for _, p := range cachekey.Parts(s.Cache) {
		if p.Name == v1alpha1.KeyRequestURI && s.passedURI() != "" {
			key += s.passedURI()
		} else {
			key += conf.Expression(p.Nginx)
		}
	}
	return key
}

// keyInGateway returns the key of an object that the gateway looks up on another disk. The path and the arguments of
// the gateway's own request are the same as in the key. The other parts come from formerHeader.
func (s site) keyInGateway() conf.Expression {
	var key strings.Builder
	for _, p := range cachekey.Parts(s.Cache) {
		key.WriteString(p.Nginx)
	}
	former := strings.NewReplacer("$request_method", formerMethod, "$scheme", formerScheme, "$host", formerHost)
	return s.mark() + conf.Expression(former.Replace(key.String()))
}

// mark returns the mark of the site at the beginning of a key.
func (s site) mark() conf.Expression {
	if s.ofRoutes {
		return routeSite
	}
	return ""
}
