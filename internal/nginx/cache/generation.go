package cache

import (
	"maps"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// generationOf is the variable with the beginning of a disk's keys; the disk is in a variable.
func generationOf(disk string) conf.Expression { return conf.Expression("$generation_of_" + disk[1:]) }

// generations are the maps from a disk to the beginning of its keys. The plans hash keys without it, so each key stays
// on its disk.
func (r renderer) generations() conf.Block {
	if len(r.Facts.Generations) == 0 || len(r.disks) == 0 {
		return nil
	}
	variables := []string{diskVariable, gatewayDisk}
	if len(r.disks) > 1 {
		variables = append(variables, otherDiskVariable)
	}
	if r.fillsFromDisks() || r.renewsInBackground() {
		variables = append(variables, formerDisk)
	}
	var block conf.Block
	for _, variable := range variables {
		m := conf.B("map", []conf.Argument{conf.Expression(variable), generationOf(variable)},
			conf.D("volatile"), conf.D("default", conf.Literal("")))
		for _, name := range slices.Sorted(maps.Keys(r.Facts.Generations)) {
			m.Block = append(m.Block, row(name, conf.Literal(cachekey.Key{Generation: r.Facts.Generations[name]}.String())))
		}
		block = append(block, m)
	}
	return block
}

// cacheOf makes a location use the cache of the disk in a variable, with a key.
func (r renderer) cacheOf(disk string, key conf.Expression) conf.Block {
	if len(r.Facts.Generations) > 0 {
		key = generationOf(disk) + key
	}
	return conf.Block{
		conf.D("proxy_cache", conf.Expression(naming.Zone(disk))), conf.D("proxy_cache_key", key),
	}
}
