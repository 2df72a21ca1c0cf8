package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cachenode/cachenode-operator/test/lab"
)

// variants are the servers that the group of cases "tuning" compares with the server ours, which runs the operator's
// configuration. Most variants run this configuration with one change. The operator's defaults were chosen by such
// measurements (see docs/adr).
var variants = []nginx{
	variant("threads-16", `thread_pool (pool_disk\d) threads=\d+`, "thread_pool $1 threads=16"),
	variant("threads-32", `thread_pool (pool_disk\d) threads=\d+`, "thread_pool $1 threads=32"),
	variant("threads-128", `thread_pool (pool_disk\d) threads=\d+`, "thread_pool $1 threads=128"),
	variant("no-pools", poolsOfALocation, ""),
	variant("no-aio-write", `aio_write on`, "aio_write off"),
	variant("no-read-ahead", `read_ahead 1m`, "read_ahead 0"),
	variant("buffers", `read_ahead 1m`, "read_ahead 1m; sendfile off; output_buffers 1 256k"),
	variant("header-256k", `read_ahead 1m`,
		"read_ahead 1m; proxy_buffer_size 256k; proxy_buffers 4 256k; proxy_busy_buffers_size 512k"),
	variant("open-files", `read_ahead 1m;`,
		"read_ahead 1m; open_file_cache max=20000 inactive=60s; open_file_cache_valid 60s;"),
	variant("levels-2-2", `(cache_disk\d/?[^;]*|cachenode/cache) levels=1:2`, "$1 levels=2:2"),
	variant("one-worker", `worker_processes \d+`, "worker_processes 1"),
	variant("four-workers", `worker_processes \d+`, "worker_processes 4"),
	variant("accept-mutex", `accept_mutex off`, "accept_mutex on"),
	variant("nopush", `sendfile on;`, "sendfile on; tcp_nopush on;"),
	threads,
	noTier,
	article.on(lab.Prepared, "article-prepared", "prepared disks"),
	ours.on(lab.Usual, "cachenode-usual", "usual disks"),
	copying("copying", "2 128k"),
	copying("copying-open-files", "2 128k; open_file_cache max=20000 inactive=60s; open_file_cache_valid 60s"),
	noTier.on(blocksOf(4), "small-blocks", "disks with blocks of 4 KiB"),
	with("direct", "io: {mode: Direct}", "memoryTier: {enabled: false}"),
	with("direct-copying", "io: {mode: Direct}", "memoryTier: {enabled: false}").changed(
		"direct-copying", "the operator's with io.mode Direct", "sendfile on;", "sendfile off; output_buffers 2 128k;"),
	manyWorkers(1),
	manyWorkers(2),
	manyWorkers(4),
	manyWorkers(8),
	manyWorkers(16),
	sendfile,
	sendfile.changed("workers-sendfile-nopush", sendfile.about, "sendfile on;", "sendfile on; tcp_nopush on;"),
	with("workers-and-tier", "io: {mode: Workers}", "memoryTier: {enabled: true}"),
	tierSends("tier-sendfile", "sendfile on;"),
	tierSends("tier-sendfile-nopush", "sendfile on; tcp_nopush on; sendfile_max_chunk 8256k;"),
	tierSends("tier-32k", "sendfile off; output_buffers 1 32k;"),
	tierSends("tier-128k", "sendfile off; output_buffers 1 128k;"),
	withTier("tier-uses-1", "minUses: 1"),
	withTier("tier-uses-20", "minUses: 20"),
	storesAt(2),
	ours.on(prepared("-d", "agcount=1"), "one-group", "prepared disks with one allocation group"),
	oneFolder(),
	ours.changed("small-zones", "the operator's, with zones for 8,000 keys a disk",
		`keys_zone=cache_disk(\d):\w+`, "keys_zone=cache_disk$1:1m"),
	blocks(32),
	blocks(64),
	hugePages(),
	sendBuffer(),
	variant("chunk-512k", `sendfile_max_chunk 2m`, "sendfile_max_chunk 512k"),
	variant("sndbuf", `listen 8080 default_server reuseport`, "$0 sndbuf=2m"),
}

// oneFolder returns ours with all temporary files of a disk in one folder. XFS stores a file near its folder, and
// distributes the folders that nginx creates over the disk. With one folder, files that are written one after another
// are therefore neighbours on the disk.
func oneFolder() nginx {
	v := ours
	v.name, v.disks = "one-folder", "prepared disks whose temporary files are in one folder"
	v.prepare = func(dir string) error {
		temp := filepath.Join(dir, "cache", "temp")
		if err := os.MkdirAll(temp, 0o777); err != nil {
			return err
		}
		var errs []error
		for i := range 256 {
			if i < 16 {
				errs = append(errs, os.Symlink(".", filepath.Join(temp, fmt.Sprintf("%x", i))))
			}
			errs = append(errs, os.Symlink(".", filepath.Join(temp, fmt.Sprintf("%02x", i))))
		}
		return errors.Join(errs...)
	}
	return v
}

// sendBuffer returns [threads] with a larger send buffer. From the start of a connection, the buffer has room for a
// whole object of 1 MiB. By default, the kernel begins with a buffer of 16 KiB.
func sendBuffer() nginx {
	v := threads
	v.name, v.about = "send-buffer", "the operator's, with net.ipv4.tcp_wmem of 2 MiB from the start"
	v.sysctl = "net.ipv4.tcp_wmem=4096 2097152 4194304"
	return v
}

// hugePages returns [threads] with huge pages in the tmpfs, as on a node with the kernel parameter
// transparent_hugepage_tmpfs=within_size. A pod cannot request huge pages for its tmpfs.
func hugePages() nginx {
	v := threads
	v.name, v.about = "huge-pages", "the operator's, with huge pages in the tmpfs of the memory tier"
	v.tmpfs = "huge=within_size"
	return v
}

// blocks returns ours on disks with blocks of the given size in KiB. The block size does not depend on the size of
// the objects.
func blocks(kibibytes int) nginx {
	name, about := fmt.Sprintf("blocks-%dk", kibibytes), fmt.Sprintf("disks with blocks of %d KiB", kibibytes)
	return ours.on(blocksOf(kibibytes), name, about)
}

// blocksOf returns a preparation that formats a disk with blocks of the given size in KiB.
func blocksOf(kibibytes int) func(object int64) lab.Preparation {
	return func(object int64) lab.Preparation {
		p := lab.Prepared(object)
		p.MkfsArgs, p.Options = []string{"-b", fmt.Sprintf("size=%d", kibibytes<<10)}, "noatime,allocsize=4k"
		return p
	}
}

// prepared returns the preparation of [lab.Prepared] with more arguments for mkfs.
func prepared(args ...string) func(object int64) lab.Preparation {
	return func(object int64) lab.Preparation {
		p := lab.Prepared(object)
		p.MkfsArgs = append(p.MkfsArgs, args...)
		return p
	}
}

// on returns a copy of n with another preparation of its disks.
func (n nginx) on(preparation func(object int64) lab.Preparation, name, disks string) nginx {
	v := n
	v.name, v.disks, v.preparation = name, disks, preparation
	return v
}

// with returns ours with more fields in the spec. Each of the fields is one line of YAML.
func with(name string, fields ...string) nginx {
	v := ours
	v.name, v.about = name, "the operator's with "+strings.Join(fields, ", ")
	v.config = func(c conditions) (configuration, error) {
		return renderedWith(c, "  "+strings.Join(fields, "\n  ")+"\n")
	}
	return v
}

// storesAt returns ours with cache.minUses in the spec. It inserts the field into cache, because the spec already
// contains other fields of cache.
func storesAt(uses int) nginx {
	v := ours
	v.name, v.about = "min-uses", fmt.Sprintf("the operator's, which stores an object at its request number %d", uses)
	v.config = func(c conditions) (configuration, error) {
		spec := strings.Replace(cacheNode(c), "\n  cache: {", fmt.Sprintf("\n  cache: {minUses: %d, ", uses), 1)
		return renderCacheNode(c, spec)
	}
	return v
}

// withTier returns [threads] with fields in spec.memoryTier.
func withTier(name, fields string) nginx { return with(name, threadsMode, "memoryTier: {"+fields+"}") }

// threadsMode is the field io of the spec, with the mode that the operator chooses for slow disks by default.
const threadsMode = "io: {mode: Threads}"

// threads is ours with thread pools and a memory tier, for disks of any media.
var threads = with("threads", threadsMode)

func variant(name, pattern, replacement string) nginx {
	return threads.changed(name, threads.about, pattern, replacement)
}

// changed returns a copy of n in whose configuration each match of pattern is replaced. If nothing matches the pattern,
// the server does not start.
func (n nginx) changed(name, about, pattern, replacement string) nginx {
	v := n
	v.name, v.about = name, fmt.Sprintf("%s with %q for %s", about, replacement, pattern)
	expression := regexp.MustCompile(pattern)
	v.config = func(c conditions) (configuration, error) {
		config, err := n.config(c)
		if err == nil && !expression.MatchString(config.text) {
			return configuration{}, fmt.Errorf("%s is not in the configuration", pattern)
		}
		config.text = expression.ReplaceAllString(config.text, replacement)
		return config, err
	}
	return v
}

// noTier is [threads] without a memory tier.
var noTier = withTier("no-memory-tier", "enabled: false")

// copying returns [noTier] with thread pools that read files into buffers. nginx then sends the buffers instead of
// using sendfile.
func copying(name, buffers string) nginx {
	return noTier.changed(name, noTier.about, "read_ahead 1m", "read_ahead 1m; sendfile off; output_buffers "+buffers)
}

// manyWorkers returns ours with n workers for each CPU and without thread pools. The workers themselves read files into
// buffers.
func manyWorkers(n int) nginx {
	return with(fmt.Sprintf("workers-%d", n*cpus), fmt.Sprintf("io: {mode: Workers, workersPerCPU: %d}", n))
}

// sendfile is ours with io.mode Workers and io.sendfile, so that the workers send files with sendfile.
var sendfile = with("workers-sendfile", "io: {mode: Workers, sendfile: true}")

// tierSends returns [threads] with other directives for sending from the memory tier.
func tierSends(name, directives string) nginx {
	return variant(name, `sendfile off;\s*output_buffers 1 64k;`, directives)
}

const poolsOfALocation = `aio threads=[^;]*;\s*aio_write [^;]*;`
