package cache

import (
	"maps"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// generationOf returns the variable with the beginning of a disk's keys. disk is the variable with the name of the
// disk.
func generationOf(disk string) conf.Expression { return conf.Expression("$generation_of_" + disk[1:]) }

// generations returns the maps from a disk to the beginning of its keys, which depends on the generation of the disk.
// The plans hash keys without that beginning, so each key stays on its disk.
func (k core) generations() conf.Block {
	if len(k.Facts.Generations) == 0 || len(k.disks) == 0 {
		return nil
	}
	variables := []conf.Expression{diskVariable, gatewayDisk}
	if len(k.disks) > 1 {
		variables = append(variables, otherDiskVariable)
	}
	if k.fillsFromDisks() || k.renewsInBackground() {
		variables = append(variables, formerDisk)
	}
	var block conf.Block
	for _, variable := range variables {
		rows := conf.Block{conf.D("volatile"), conf.D("default", conf.Literal(""))}
		for _, name := range slices.Sorted(maps.Keys(k.Facts.Generations)) {
			rows = append(rows, row(name, conf.Literal(cachekey.Key{Generation: k.Facts.Generations[name]}.String())))
		}
		block = append(block, conf.Map(variable, generationOf(string(variable)), rows...))
	}
	return block
}

// cacheOf makes a location use the cache of a disk with a key. disk is the variable with the name of the disk.
func (s site) cacheOf(disk string, key conf.Expression) conf.Block {
	if len(s.Facts.Generations) > 0 {
		key = generationOf(disk) + key
	}
	return conf.Block{
		conf.D("proxy_cache", conf.Expression(naming.Zone(disk))), conf.D("proxy_cache_key", key),
	}
}
