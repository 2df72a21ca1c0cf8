package cache

import (
	"fmt"
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

const (
	// leastLifetime is the minimum lifetime of an object that is copied into memory. Objects with a shorter lifetime are
	// not copied. For example, a copy of a live playlist would be too old for players, even if the copy itself is fresh
	// only for a short time.
	leastLifetime = 10 * time.Second
	// copyVariable is the number of seconds for which a copy is fresh; 0 for an object that is not copied. copyLifetime
	// is the capture of the regular expression with the object's own lifetime.
	copyVariable = "$copy_seconds"
	copyLifetime = "$copy_lifetime"
)

// copySeconds returns the map for copyVariable: maxExtraAge, or the object's own lifetime if that is shorter. nginx
// has no variable for the time for which an object is still fresh. So the lifetime counts from the time at which the
// origin sent the object. The map takes it from the same places as nginx: X-Accel-Expires, then max-age, then
// Expires, then cache.valid. Expires is a date, which a map cannot compare with the present time. So an object whose
// lifetime comes from Expires is not copied. An object with s-maxage is not copied either; see strictVariable.
func (m tier) copySeconds() conf.Directive {
	const found = "^HIT:(?:200|304):"
	longest := effective.Duration(m.Spec.MemoryTier.MaxExtraAge)
	seconds := func(d time.Duration) conf.Literal { return conf.Literal(fmt.Sprintf("%d", int64(d.Seconds()))) }
	rows := func(value, end string) conf.Block {
		return conf.Block{
			conf.Row(conf.Expression(value+"0*[0-9]"+end), conf.Literal("0")),
			conf.Row(conf.Expression(fmt.Sprintf("%s0*(?<%s>%s)%s",
				value, copyLifetime[1:], atMost(int64(longest.Seconds())), end)), conf.Expression(copyLifetime)),
			conf.Row(conf.Expression(value+"[0-9]+"+end), seconds(longest)),
		}
	}
	valid := time.Duration(0)
	if i := slices.IndexFunc(m.Cache.Valid, func(v v1alpha1.Validity) bool {
		return slices.Contains(v.Status, 200)
	}); i >= 0 {
		valid = min(effective.Duration(m.Cache.Valid[i].For), longest)
		if effective.Duration(m.Cache.Valid[i].For) < leastLifetime {
			valid = 0
		}
	}
	block := conf.Block{conf.D("default", conf.Literal("0"))}
	block = append(block, rows("~"+found, ":")...) // nginx ignores a value that is not a number
	block = append(block, rows("~*"+found+"[^:]*:(?:(?!max-age=).)*max-age=", "(?![0-9])")...)
	return conf.Map("$upstream_cache_status:$status:$upstream_http_x_accel_expires:"+controlInAnswer+
		" expires=$upstream_http_expires", copyVariable,
		append(block, conf.Row(conf.Expression("~"+found+":(?!.*max-age=).* expires=$"), seconds(valid)))...)
}
