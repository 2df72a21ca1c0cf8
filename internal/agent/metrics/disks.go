package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/disk"
)

// Files is the estimated number of files in a disk's cache, and their size in bytes.
type Files struct {
	Count, Bytes int64
}

// diskCollector turns the disks' states into metrics at each scrape.
type diskCollector struct {
	clock  clock.PassiveClock
	disks  func() map[string]disk.State
	files  func() map[string]Files
	loaded func(string) (bool, bool)
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"disk"}, labels...), nil)
}

var (
	descUp    = describe("cachenode_disk_up", "1 if the probes find the disk healthy, also while it is drained.")
	descState = describe("cachenode_disk_state",
		"1 for the state of the disk by its probes: Starting, Healthy or Failed.", "state")
	descFailure    = describe("cachenode_disk_failure", "1 for the reason why the disk is out of use.", "reason")
	descSize       = describe("cachenode_disk_size_bytes", "Size of the disk's file system.")
	descFree       = describe("cachenode_disk_free_bytes", "Free space of the disk's file system.")
	descUsed       = describe("cachenode_disk_used_bytes", "Used space of the disk's file system, also by other files.")
	descInodes     = describe("cachenode_disk_inodes", "Inodes of the disk's file system.")
	descInodesFree = describe("cachenode_disk_inodes_free", "Free inodes of the disk's file system.")
	descInodesUsed = describe("cachenode_disk_inodes_used", "Used inodes of the disk's file system.")
	descWaits      = describe("cachenode_disk_waits", "1 if a probe found in the last ten minutes that reads wait "+
		"for the disk. With io.mode Workers, pools then read instead of the workers.")
	descFiles = describe("cachenode_cache_files",
		"Files of the disk's cache, estimated from a sample of its folders.")
	descCacheBytes = describe("cachenode_cache_size_bytes",
		"Bytes of the files of the disk's cache, estimated from a sample of its folders.")
	descLoaded = describe("cachenode_index_loaded",
		"1 if nginx has read the index of the disk's cache since it started. "+
			"Until then nginx finds objects one by one, as clients request them.")
)

func (c *diskCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descUp, descState, descFailure, descSize, descFree, descUsed, descInodes, descInodesFree, descInodesUsed,
		descWaits, descFiles, descCacheBytes, descLoaded,
	} {
		out <- d
	}
}

func (c *diskCollector) Collect(out chan<- prometheus.Metric) {
	files := c.files()
	for name, s := range c.disks() {
		set := func(desc *prometheus.Desc, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{name}, labels...)...)
		}
		set(descUp, one(s.Status == v1alpha1.DiskHealthy))
		for _, state := range []v1alpha1.DiskState{v1alpha1.DiskStarting, v1alpha1.DiskHealthy, v1alpha1.DiskFailed} {
			set(descState, one(s.Status == state), string(state))
		}
		set(descWaits, one(s.Waits(c.clock.Now())))
		if s.Status == v1alpha1.DiskFailed {
			set(descFailure, 1, string(s.Reason))
		}
		if u := s.Usage; u.Size > 0 {
			set(descSize, float64(u.Size))
			set(descFree, float64(u.Free))
			set(descUsed, float64(u.Size-u.Free))
			set(descInodes, float64(u.Inodes))
			set(descInodesFree, float64(u.FreeInodes))
			set(descInodesUsed, float64(u.Inodes-u.FreeInodes))
		}
		if f, ok := files[name]; ok {
			set(descFiles, float64(f.Count))
			set(descCacheBytes, float64(f.Bytes))
		}
		if loaded, known := c.loaded(name); known && s.Status == v1alpha1.DiskHealthy { // nginx reads only healthy disks
			set(descLoaded, one(loaded))
		}
	}
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
