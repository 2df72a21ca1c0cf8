package cache

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
)

// hereLocations returns the locations that answer in this pod: from a disk, or from the origin. popular are
// additional directives for requests for objects that may be hot.
func (s store) hereLocations(popular conf.Block) conf.Block {
	block := conf.Block{s.past(pass), s.unanswered()}
	if len(s.disks) > 0 {
		block = append(block, s.diskLocations(popular)...)
	}
	return append(block, s.uncached(uncached))
}

// diskLocations returns the locations that serve from the disks: from the disk of the key, and from another disk if
// that disk fails.
//
// A HEAD does not wait for the lock of a request that fetches the object.
func (s store) diskLocations(popular conf.Block) conf.Block {
	own := diskLocation{name: onDisk, disk: diskVariable, tag: agentapi.TagCached, next: otherDisk, sliced: s.hasSlices()}
	if len(s.disks) == 1 {
		own.next = uncached
	}
	head := own
	head.name, head.unlocked = onDiskHead, true
	own.more = popular
	block := conf.Block{s.cached(own), s.cached(head)}
	if len(s.disks) > 1 {
		block = append(block, s.cached(diskLocation{
			name: otherDisk, disk: otherDiskVariable, tag: agentapi.TagOtherDisk, next: uncached, sliced: s.hasSlices(),
		}))
	}
	late := own
	late.name, late.disk, late.next, late.more = waiting, gatewayDisk, uncached, nil
	block = append(block, s.cached(late), s.unsatisfiable(rangeOnDisk, agentapi.TagCached))
	block = append(block, s.withoutLock(own)...)
	if s.noticesMixed() {
		inOne := own
		inOne.name, inOne.sliced = mixed, false
		block = append(block, s.cached(inOne))
	}
	return append(block, s.inWhole()...)
}

// noSuchRange makes a location that answers from a disk redirect a 416 to the location rangeOnDisk. Otherwise nginx
// would add the location's headers to a 416 twice: once for the object, and once for its own answer. The location
// rangeOnDisk has no headers to add.
func noSuchRange() conf.Directive {
	return conf.D("error_page", conf.Literal("416"), conf.Literal("="), conf.Literal(rangeOnDisk))
}

// unsatisfiable returns a location that answers 416 for ranges that an object does not have.
func (d door) unsatisfiable(name, tag string) conf.Directive {
	return location(name,
		append(d.logs(tag), conf.D("return", conf.Literal("416")))...)
}

// diskLocation is a location that serves from a disk, or passes the request on to the location next if the disk fails.
type diskLocation struct {
	name      string
	disk      conf.Expression
	tag, next string
	// sliced is true if the location fetches and stores objects in slices.
	sliced bool
	// unlocked is true if no request waits for another request that fetches the same object.
	unlocked bool
	// more are additional directives.
	more conf.Block
}

// failover returns two locations to which a request may go: disk if the disk fails, and gateway if the gateway gives
// no response.
func (l diskLocation) failover() (disk, gateway conf.Argument) {
	noAnswer := waiting
	if l.name == waiting || l.name == unlocked || l.next == uncachedAgain {
		noAnswer = l.next
	}
	if l.sliced {
		return failoverOf(l.next), failoverOf(noAnswer)
	}
	return conf.Literal(l.next), conf.Literal(noAnswer)
}

// cached returns a location that serves from a disk.
//
// For a MISS, nginx uses the disk only after the origin has answered. If the disk is dead, it is then too late to
// fail over. Therefore nginx first checks for each request that the disk's folder exists, which costs one stat from
// memory.
func (s store) cached(l diskLocation) conf.Directive {
	block := conf.Block{
		conf.B("if", []conf.Argument{conf.Expression("(!-d"), conf.Expression(layout.CacheDir(string(l.disk)) + ")")},
			conf.D("return", conf.Literal("500"))),
	}
	if l.disk != gatewayDisk {
		block = append(block, set(gatewayDisk, l.disk))
	}
	if l.name == otherDisk {
		block = append(block, falls(conf.Literal("1")))
	}
	from := map[string]conf.Literal{
		onDisk: fromDisk, waiting: fromWaiting, unlocked: fromUnlocked, whole: fromWhole,
	}[l.name]
	block = append(block, set(fromVariable, from))
	if l.sliced {
		block = append(s.slices(), block...) // the failover depends on the slice
	} else {
		block = append(block, s.notSliced("no")...)
	}
	block = slices.Concat(block, s.awaitsBody(), s.rangesAsTheyAre(), s.throughGateway(s.entry.url()+s.passedURI()),
		s.cachePolicy(l), s.diskIO(l.disk))
	diskFails, gatewayFails := l.failover()
	block = append(block,
		conf.D("error_page", conf.Literal("500"), conf.Literal("="), diskFails),
		// The gateway gave no response, and no stale copy may be served, see renewal.go.
		conf.D("error_page", conf.Literal("502"), conf.Literal("504"), conf.Literal("="), gatewayFails),
		noSuchRange(),
		conf.D("recursive_error_pages", conf.OnOff(true))) // the other disk may fail as well
	if l.disk == gatewayDisk { // this may be another disk than the key's own
		block = append(block, logsRejection())
	}
	block = slices.Concat(block, l.more, s.logs(l.tag), s.headers(conf.Expression("$upstream_cache_status"), l.disk))
	return location(l.name, block...)
}

func (s store) cachePolicy(l diskLocation) conf.Block {
	c := s.Cache
	block := append(s.cacheOf(string(l.disk), s.storedKey(l.sliced)),
		conf.D("proxy_no_cache",
			conf.Expression(variesVariable), conf.Expression(sharedVariable), conf.Expression(agedVariable),
			conf.Expression(partialVariable)),
		// A stored object is whole, whether or not the origin serves ranges itself.
		conf.D("proxy_force_ranges", conf.OnOff(true)))
	block = append(block, s.validities(l.sliced)...)
	var methods []conf.Argument
	for _, m := range c.Methods {
		methods = append(methods, conf.Literal(m))
	}
	wait := s.LockTimeout()
	if s.waitsTwice(l) {
		wait = min(wait, firstWait)
	}
	return append(block,
		conf.D("proxy_cache_methods", methods...),
		conf.D("proxy_cache_min_uses", conf.Int(s.minUses())),
		// The stored response itself limits how long it may be served stale; see gateway.
		conf.D("proxy_cache_use_stale", conf.Literal("off")),
		// For a renewal in the background, nginx does not know the slice.
		conf.D("proxy_cache_background_update", conf.OnOff(ptr.Deref(c.BackgroundUpdate, false) && !l.sliced)),
		conf.D("proxy_cache_revalidate", conf.OnOff(ptr.Deref(c.Revalidate, true))),
		conf.D("proxy_cache_lock", conf.OnOff(ptr.Deref(c.Lock.Enabled, true) && !l.unlocked)),
		conf.D("proxy_cache_lock_timeout", conf.Time(wait)),
		conf.D("proxy_cache_lock_age", conf.Time(s.LockAge())))
}

// validities returns the directives that define how long a response without a lifetime of its own is fresh.
func (s site) validities(sliced bool) (block conf.Block) {
	const ok, partial = v1alpha1.StatusCode(200), v1alpha1.StatusCode(206)
	for _, v := range s.Cache.Valid {
		var args []conf.Argument
		for _, status := range v.Status {
			args = append(args, conf.Int(status))
			if sliced && status == ok && !s.Cache.Names(partial) {
				args = append(args, conf.Int(partial))
			}
		}
		block = append(block, conf.D("proxy_cache_valid", append(args, conf.Seconds(effective.Duration(v.For)))...))
	}
	return block
}

// diskIO gives reads, sendfile and writes of cache files to the disk's thread pool, or leaves them to the worker.
func (n node) diskIO(disk conf.Expression) conf.Block {
	io := n.Spec.IO
	var block conf.Block
	if n.usesThreads() {
		block = conf.Block{
			conf.D("aio", conf.Expression("threads="+naming.Pool(string(disk)))),
			conf.D("aio_write", conf.OnOff(ptr.Deref(io.AsyncWrite, true))),
		}
	}
	if ahead := effective.ReadAhead(io); ahead > 0 {
		block = append(block, conf.D("read_ahead", conf.Size(ahead)))
	}
	if io.SendfileMaxChunk != nil {
		block = append(block, conf.D("sendfile_max_chunk", conf.Size(io.SendfileMaxChunk.Value())))
	}
	return block
}
