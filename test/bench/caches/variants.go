package main

import (
	"fmt"
	"regexp"

	"github.com/cachenode/cachenode-operator/test/lab"
)

// variants are the operator's configuration, each with one change. The defaults were chosen by them (docs/adr).
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
	noTier,
	copying("copying", "2 128k"),
	copying("copying-open-files", "2 128k; open_file_cache max=20000 inactive=60s; open_file_cache_valid 60s"),
	noTier.on(4, "small-blocks"),
	manyWorkers(4, "2 128k"),
	manyWorkers(8, "2 128k"),
	manyWorkers(16, "2 128k"),
	manyWorkers(32, "2 128k"),
	withTier("min-uses-1", "minUses: 1"),
	withTier("min-uses-20", "minUses: 20"),
	blocks(32),
	blocks(64),
	hugePages(),
	sendBuffer(),
	variant("chunk-512k", `sendfile_max_chunk 2m`, "sendfile_max_chunk 512k"),
	variant("sndbuf", `listen 8080 default_server reuseport`, "$0 sndbuf=2m"),
}

// sendBuffer is ours with a send buffer for a whole object of 1 MiB from the start of each connection. The kernel
// begins with 16 KiB.
func sendBuffer() nginx {
	v := ours
	v.name, v.about = "send-buffer", "the operator's, with net.ipv4.tcp_wmem of 2 MiB from the start"
	v.sysctl = "net.ipv4.tcp_wmem=4096 2097152 4194304"
	return v
}

// hugePages is ours with huge pages in the tmpfs, as on a node with the kernel parameter
// transparent_hugepage_tmpfs=within_size. A pod cannot ask for them.
func hugePages() nginx {
	v := ours
	v.name, v.about = "huge-pages", "the operator's, with huge pages in the tmpfs of the memory tier"
	v.tmpfs = "huge=within_size"
	return v
}

// blocks is ours on disks with blocks of a size in KiB, whatever the size of the objects.
func blocks(kibibytes int) nginx { return ours.on(kibibytes, fmt.Sprintf("blocks-%dk", kibibytes)) }

// on is n on disks with blocks of a size in KiB, whatever the size of the objects.
func (n nginx) on(kibibytes int, name string) nginx {
	v := n
	v.name, v.about = name, fmt.Sprintf("%s, disks with blocks of %d KiB", n.about, kibibytes)
	v.preparation = func(object int64) lab.Preparation {
		p := lab.Prepared(object)
		p.MkfsArgs = []string{"-b", fmt.Sprintf("size=%d", kibibytes<<10)}
		return p
	}
	return v
}

// withTier is ours with fields in spec.memoryTier.
func withTier(name, fields string) nginx {
	v := ours
	v.name, v.about = name, fmt.Sprintf("the operator's with spec.memoryTier: {%s}", fields)
	v.config = func(c conditions) (configuration, error) { return renderedWith(c, "  memoryTier: {"+fields+"}\n") }
	return v
}

func variant(name, pattern, replacement string) nginx {
	return ours.changed(name, "the operator's", pattern, replacement)
}

// changed is n with a replacement for a pattern in its configuration.
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

// noTier is ours without a memory tier.
var noTier = withTier("no-memory-tier", "enabled: false")

// copying is ours without a memory tier, with pools that read into buffers instead of sending from the page cache.
func copying(name, buffers string) nginx {
	return noTier.changed(name, noTier.about, "read_ahead 1m", "read_ahead 1m; sendfile off; output_buffers "+buffers)
}

// manyWorkers is [copying] with workers that read for themselves instead of pools.
func manyWorkers(workers int, buffers string) nginx {
	name := fmt.Sprintf("workers-%d", workers)
	v := copying(name, buffers).changed(name, "many workers", poolsOfALocation, "")
	return v.changed(name, v.about, `worker_processes \d+`, fmt.Sprintf("worker_processes %d", workers))
}

const poolsOfALocation = `aio threads=[^;]*;\s*aio_write [^;]*;`
