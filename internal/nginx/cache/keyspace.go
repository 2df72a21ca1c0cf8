package cache

import (
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// keySpace is the part of the configuration that maps keys to disks and to pods.
type keySpace struct{ site }

// shards returns the blocks of all plans. They come last in the file because they are long.
func (k keySpace) shards() conf.Block { return append(k.ofDisks(), k.ofPods()...) }

// ofDisks returns the blocks that map the cache key to a disk.
func (k keySpace) ofDisks() conf.Block {
	if len(k.disks) == 0 {
		return conf.Block{conf.Map("$server_port", diskVariable,
			conf.D("default", conf.Literal(agentapi.NoDisk)))}
	}
	tree := k.plan.Tree()
	comment := "Which disk a key is on."
	if len(tree.Groups) > 0 {
		comment = "Which disk a key is on, in two steps, because nginx scans the ranges of a block in order:\n" +
			"the hundredth of the key space, then the slot in it."
	}
	return shards(k.key(), diskVariable, "shard", tree, comment)
}

// ofPods returns the blocks that map the cache key to the pods. They hash the key with a prefix: otherwise the keys of
// a pod would all be on a few of its disks.
func (k keySpace) ofPods() conf.Block {
	key := fleet.KeyPrefix + k.key()
	var block conf.Block
	if k.hops() {
		plan, _ := k.Facts.Fleet.Plan() // ok is true: other pods own keys
		tree := plan.Tree()
		if standIns, ok := plan.StandIns(); ok {
			tree = plan.Pairs(standIns)
		}
		block = append(block, shards(key, pairVariable, "pod", tree, "")...)
	}
	if k.fillsFromPods() {
		plan, _ := k.Facts.Fleet.Previous.Plan()
		block = append(block, shards(key, previousVariable, "previous", plan.Tree(), "")...)
	}
	if k.fillsFromDisks() {
		plan, _ := k.Facts.Fleet.Disks.Plan()
		block = append(block, shards(k.key(), previousDisk, "former", plan.Tree(), "")...)
	}
	return block
}

// shards returns the split_clients blocks of a tree, which set the variable. name is the beginning of the names of
// the variables for the tree's groups. comment is the comment before the first block.
func shards(key, variable conf.Expression, name string, tree shard.Tree, comment string) conf.Block {
	if len(tree.Groups) == 0 {
		return conf.Block{split(key, variable, tree.Root, comment)}
	}
	group := conf.Expression("$" + name + "_group")
	var rows, groups conf.Block
	for _, g := range tree.Groups {
		of := conf.Expression("$" + name + "_" + g.Name)
		rows = append(rows, conf.D(g.Name, of))
		groups = append(groups, split(key, of, g.Split, ""))
	}
	choice := conf.Map(group, variable, rows...)
	choice.Rows = true
	return append(conf.Block{split(key, group, tree.Root, comment), choice}, groups...)
}

func split(key, variable conf.Expression, ranges shard.Split, comment string) conf.Directive {
	block := make(conf.Block, len(ranges))
	for i, r := range ranges {
		width := "*"
		if r.Width > 0 {
			width = conf.Percent(r.Width)
		}
		block[i] = conf.D(width, conf.Literal(r.Value))
	}
	d := conf.B("split_clients", []conf.Argument{key, variable}, block...)
	d.Rows = true
	return d.WithComment(comment)
}
