package cache

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// diskVariable is nginx's variable for the disk of a request.
const diskVariable = "$disk"

// sorted makes the output independent of the order of the disks in the spec.
func sorted(disks []v1alpha1.Disk) []v1alpha1.Disk {
	return slices.SortedFunc(slices.Values(disks), func(a, b v1alpha1.Disk) int { return strings.Compare(a.Name, b.Name) })
}

// threadPools gives each disk threads of its own: a disk that blocks holds up only its own pool.
func threadPools(disks []v1alpha1.Disk) conf.Block {
	var block conf.Block
	for _, d := range sorted(disks) {
		block = append(block, conf.D("thread_pool", conf.Literal(naming.Pool(d.Name)),
			conf.Literal(fmt.Sprintf("threads=%d", tuning.Threads(d))),
			conf.Literal(fmt.Sprintf("max_queue=%d", ptr.Deref(d.ThreadPool.MaxQueue, 0)))))
	}
	return block
}

// cachePaths gives each disk a cache of its own. Temporary files stay on the disk that the finished file will be on, so
// that the last step is a rename and not a copy.
func cachePaths(disks []v1alpha1.Disk) conf.Block {
	var block conf.Block
	for _, d := range sorted(disks) {
		parameter := func(name string, value conf.Literal) conf.Argument { return conf.Literal(name+"=") + value }
		args := []conf.Argument{
			conf.Literal(naming.CacheDir(d.Name)),
			parameter("levels", "1:2"),
			parameter("keys_zone", conf.Literal(naming.Zone(d.Name))+":"+conf.Size(tuning.KeysZone(d))),
			parameter("max_size", conf.Size(tuning.MaxSize(d))),
		}
		if free := tuning.MinFree(d); free > 0 {
			args = append(args, parameter("min_free", conf.Size(free)))
		}
		args = append(args,
			parameter("inactive", conf.Seconds(tuning.Duration(d.Cache.Inactive))),
			parameter("use_temp_path", "off"))
		block = append(block, conf.D("proxy_cache_path", args...))
	}
	return block
}

// shards map the cache key to a disk. The blocks come last in the file because they are long.
func shards(in Input) conf.Block {
	tree := in.Plan.Tree()
	key := cacheKey(in.Spec.Cache.Key)
	if len(tree.Groups) == 0 {
		root := split(key, diskVariable, tree.Root)
		root.Comment = "Which disk a key is on."
		return conf.Block{root}
	}
	const groupVariable = "$shard_group"
	root := split(key, groupVariable, tree.Root)
	root.Comment = "Which disk a key is on, in two steps, because nginx scans the ranges of a block in order:\n" +
		"the hundredth of the key space, then the slot in it."
	choice := conf.B("map", []conf.Argument{conf.Expression(groupVariable), conf.Expression(diskVariable)})
	choice.Rows = true
	block := conf.Block{root, choice}
	for _, g := range tree.Groups {
		variable := "$shard_" + g.Name
		block[1].Block = append(block[1].Block, conf.D(g.Name, conf.Expression(variable)))
		block = append(block, split(key, variable, g.Split))
	}
	return block
}

func split(key conf.Expression, variable string, ranges shard.Split) conf.Directive {
	d := conf.B("split_clients", []conf.Argument{key, conf.Expression(variable)})
	d.Rows = true
	for _, r := range ranges {
		width := "*"
		if r.Width > 0 {
			width = conf.Percent(r.Width)
		}
		d.Block = append(d.Block, conf.D(width, conf.Literal(r.Value)))
	}
	return d
}

// cacheKey joins the parts so that no two different requests can have one key: a scheme has no colon, a host no slash, and
// a URI begins with a slash.
func cacheKey(parts []v1alpha1.KeyPart) conf.Expression {
	var key conf.Expression
	for _, p := range []struct {
		part v1alpha1.KeyPart
		text conf.Expression
	}{
		{v1alpha1.KeyMethod, "$request_method "},
		{v1alpha1.KeyScheme, "$scheme://"},
		{v1alpha1.KeyHost, "$host"},
		{v1alpha1.KeyRequestURI, "$request_uri"},
		{v1alpha1.KeyURI, "$uri"},
		{v1alpha1.KeyArgs, "$is_args$args"},
	} {
		if slices.Contains(parts, p.part) {
			key += p.text
		}
	}
	return key
}
