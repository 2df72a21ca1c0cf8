package cache

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// diskVariable is nginx's variable with the disk of a request's key.
const diskVariable = "$disk"

// otherDiskVariable is nginx's variable with the disk to which a request fails over.
const otherDiskVariable = "$other_disk"

// row returns a row of a map whose keys are disks. nginx reads some names as parameters of the map, unless a
// backslash precedes the name.
func row(disk string, value conf.Argument) conf.Directive {
	if slices.Contains([]string{"default", "hostnames", "include", "volatile"}, disk) {
		return conf.Row(conf.Literal(`\`+disk), value)
	}
	return conf.D(disk, value)
}

// diskCaches is the part of the configuration for each disk: its threads, its cache, and a temporary cache of the
// gateway.
type diskCaches struct{ node }

// threadPools gives each disk its own threads, so that a disk that blocks holds up only its own pool.
func (c diskCaches) threadPools() conf.Block {
	var block conf.Block
	if !c.usesThreads() {
		return nil
	}
	for _, d := range c.disks {
		block = append(block, conf.D("thread_pool", conf.Literal(naming.Pool(d.Name)),
			conf.Literal(fmt.Sprintf("threads=%d", effective.Threads(d, c.Spec.IO, len(c.Spec.Disks), c.Facts.Cores))),
			conf.Literal(fmt.Sprintf("max_queue=%d", ptr.Deref(d.ThreadPool.MaxQueue, 0)))))
	}
	return block
}

// usesThreads returns false if workers read from the disks themselves, by the operator's choice or the spec's.
func (n node) usesThreads() bool {
	return n.Spec.IO.Mode != v1alpha1.IODirect && !n.readsInWorkers()
}

// readsInWorkers returns true if io.mode is Workers and the workers read from the disks themselves.
func (n node) readsInWorkers() bool {
	return n.Spec.IO.Mode == v1alpha1.IOWorkers && !n.Facts.Waits
}

// copies returns true if the workers read files into buffers and send the buffers, without sendfile. A response in
// slices would take buffers for each slice, and would not release them before it ends.
func (s site) copies() bool {
	return s.readsInWorkers() && !s.hasSlices() && !ptr.Deref(s.Spec.IO.Sendfile, false)
}

// cachePaths gives each disk its own cache. Temporary files are on the same disk as the finished file, so that the
// last step is a rename and not a copy.
func (c diskCaches) cachePaths() conf.Block {
	var block conf.Block
	zones := c.keysZones()
	for _, d := range c.disks {
		d = effective.Measured(d, c.Facts.Sizes[d.Name])
		parameter := func(name string, value conf.Literal) conf.Argument { return conf.Literal(name+"=") + value }
		args := []conf.Argument{
			conf.Literal(layout.CacheDir(d.Name)),
			parameter("levels", "1:2"),
			parameter("keys_zone", conf.Literal(naming.Zone(d.Name))+":"+conf.Size(zones[d.Name])),
			parameter("max_size", conf.Offset(effective.MaxSize(d))),
		}
		if free := effective.MinFree(d); free > 0 {
			args = append(args, parameter("min_free", conf.Offset(free)))
		}
		args = append(args,
			parameter("inactive", conf.Seconds(effective.Duration(d.Cache.Inactive))),
			parameter("use_temp_path", "off"))
		block = append(block, conf.D("proxy_cache_path", args...), refreshPath(d))
	}
	return block
}

// refreshPath returns the directive for the gateway's cache on a disk. The files of this cache live for seconds only,
// and are seldom written to the disk.
func refreshPath(d v1alpha1.Disk) conf.Directive {
	return conf.D("proxy_cache_path",
		conf.Literal(layout.RefreshDir(d.Name)),
		conf.Literal("keys_zone="+refreshZone(d.Name)+":256k"),
		"max_size="+conf.Offset(effective.MaxSize(d)/20),
		conf.Literal("inactive=10s"),
		conf.Literal("use_temp_path=off"))
}

// keysZones returns the sizes of the keys zones of all disks in bytes, including failed disks. If the size of a zone
// changes, nginx creates a new, empty zone. So the failure of one disk must not change the zones of the other disks.
// The first measurement of a disk can change the zones of the other disks, but only if all zones are reduced to fit the
// memory limit.
func (c diskCaches) keysZones() map[string]int64 {
	disks := make([]v1alpha1.Disk, len(c.Spec.Disks))
	for i, d := range c.Spec.Disks {
		disks[i] = effective.Measured(d, c.Facts.Sizes[d.Name])
	}
	return effective.KeysZones(disks, c.Facts.Memory)
}

// otherDisk maps each disk to the next one. Leaving disks are skipped unless there is no other disk. If a disk fails,
// its requests go to the next disk, until a configuration without the failed disk is in effect.
func (c diskCaches) otherDisk() conf.Block {
	if len(c.disks) < 2 {
		return nil
	}
	var rows conf.Block
	for i, disk := range c.disks {
		others := slices.Concat(c.disks[i+1:], c.disks[:i])
		next := max(slices.IndexFunc(others, func(d v1alpha1.Disk) bool { return !effective.Leaves(d) }), 0)
		rows = append(rows, row(disk.Name, conf.Literal(others[next].Name)))
	}
	return conf.Block{
		conf.Map(diskVariable, otherDiskVariable, rows...),
	}
}
