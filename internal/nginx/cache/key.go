package cache

import (
	"strings"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// cacheKey returns the key as it stands in nginx's configuration.
func (s site) cacheKey() conf.Expression {
	var key conf.Expression
	for _, p := range cachekey.Parts(s.Cache) {
		if p.Name == v1alpha1.KeyRequestURI && s.passedURI() != "" {
			key += s.passedURI()
		} else {
			key += conf.Expression(p.Nginx)
		}
	}
	return key
}

// keyInGateway returns the key as the gateway computes it for an object that it looks up on another disk. The path and
// the arguments of its own request are those that the key has; for the rest, see formerHeader.
func (s site) keyInGateway() conf.Expression {
	var key strings.Builder
	for _, p := range cachekey.Parts(s.Cache) {
		key.WriteString(p.Nginx)
	}
	former := strings.NewReplacer("$request_method", formerMethod, "$scheme", formerScheme, "$host", formerHost)
	return conf.Expression(former.Replace(key.String()))
}
