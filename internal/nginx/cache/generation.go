package cache

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// GenerationKey is the key under which a disk of a generation stores what has a key. Generation 0 has the key itself.
// No key of an object or a slice begins like it: only a method comes before a space, and a method has no "=".
func GenerationKey(generation int64, key string) string {
	if generation == 0 {
		return key
	}
	return fmt.Sprintf("generation=%d %s", generation, key)
}

// generationOf is the variable for what comes before the keys of a disk.
func generationOf(disk string) conf.Expression { return conf.Expression("$generation_of_" + disk[1:]) }

// generations are the maps for what comes before the keys of each disk. The plans do not see it, so all keys stay on
// their disks.
func (r renderer) generations() conf.Block {
	if len(r.Facts.Generations) == 0 {
		return nil
	}
	variables := []string{diskVariable, gatewayDisk}
	if len(r.disks) > 1 {
		variables = append(variables, otherDiskVariable)
	}
	if r.fillsFromDisks() {
		variables = append(variables, formerDisk)
	}
	var block conf.Block
	for _, variable := range variables {
		m := conf.B("map", []conf.Argument{conf.Expression(variable), generationOf(variable)},
			conf.D("volatile"), conf.D("default", conf.Literal("")))
		for _, name := range slices.Sorted(maps.Keys(r.Facts.Generations)) {
			m.Block = append(m.Block, row(name, conf.Literal(GenerationKey(r.Facts.Generations[name], ""))))
		}
		block = append(block, m)
	}
	return block
}

// cacheOf has a location use the cache of a disk, which is in a variable, by a key.
func (r renderer) cacheOf(disk string, key conf.Expression) conf.Block {
	if len(r.Facts.Generations) > 0 {
		key = generationOf(disk) + key
	}
	return conf.Block{
		conf.D("proxy_cache", conf.Expression(naming.Zone(disk))), conf.D("proxy_cache_key", key),
	}
}
