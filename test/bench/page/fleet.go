package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/record"
)

// systems contains the systems that the benchmark of hops compares, in the order of the rows. The first string is the
// name in the results, and the second string is the name in tables.
var systems = [][2]string{
	{ownName, "**CacheNode**, no TLS"},
	{"cachenode-tls", "**CacheNode**, mutual TLS"},
	{"cachenode-hdd", "**CacheNode**, no TLS, hard disks"},
	{"cachenode-memory", "**CacheNode**, a hot copy in memory"},
	{varnish, "Varnish, shard director"},
	{trafficServer, "Traffic Server, consistent-hash parents"},
}

// readDocument reads a result whose type is T, and the conditions of its measurement.
func readDocument[T any](file string) (d record.Document[T], err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return d, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// fleetTable returns the table of the benchmark of hops.
func (r *results) fleetTable() (string, error) {
	d, err := readDocument[result.Fleet](filepath.Join(r.folder, "fleet.json"))
	if err != nil {
		return "", err
	}
	f := d.Result
	lines := [][]string{{
		"pods", "objects", "own disk, requests/s", "over a hop, requests/s", "hop / own disk",
		"p99 ms, own disk", "p99 ms, hop", "ms CPU, own disk", "ms CPU, hop: asked pod + owner",
	}}
	for _, s := range systems {
		for _, size := range sizes(f) {
			if line := fleetLine(f, s[0], size); line != nil {
				lines = append(lines, append([]string{s[1], bytes(size)}, line...))
			}
		}
	}
	return fmt.Sprintf("Each of the two pods has %d MiB of memory and may use %g processors.\n"+
		"Clients open %d connections to one of the pods.\n"+
		"Each of the %d rounds measures each case for %g s.\n"+
		"The figures were measured on %s at commit %s ([JSON](fleet.json)).\n\n%s",
		f.Memory, f.Processors, f.Connections, f.Rounds, f.Seconds, d.Date[:10], d.Commit, markdown(lines)), nil
}

func sizes(f result.Fleet) (list []int64) {
	for _, s := range f.Samples {
		list = append(list, s.Bytes)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// fleetLine returns the table's row for a system and objects of one size; nil if this case was not measured. If the
// first pod of the system serves a hot copy from memory, the columns of the hop contain the figures of this copy.
func fleetLine(f result.Fleet, system string, size int64) []string {
	of := func(way string, figure func(result.Hop) float64) (values []float64) {
		for _, s := range f.Samples {
			if s.System == system && s.Bytes == size && s.Way == way {
				values = append(values, figure(s))
			}
		}
		return values
	}
	rate := func(h result.Hop) float64 { return h.Answers.PerSecond }
	local, hop := of("local", rate), of("hop", rate)
	other := "hop"
	if len(hop) == 0 {
		other, hop = "memory", of("memory", rate)
	}
	if len(hop) == 0 {
		return nil
	}
	median := func(way string, format string, figure func(result.Hop) float64) string {
		values := of(way, figure)
		if len(values) == 0 {
			return "–"
		}
		return fmt.Sprintf(format, result.Median(values))
	}
	p99 := func(h result.Hop) float64 { return h.Answers.P99 }
	own := func(h result.Hop) float64 { return h.CPU }
	owners := func(h result.Hop) float64 { return h.OwnersCPU }
	rates := func(values []float64) string {
		if len(values) == 0 {
			return "–"
		}
		return thousands(result.Median(values))
	}
	ratio := "–"
	if len(local) == len(hop) {
		r := result.Paired(hop, local)
		ratio = fmt.Sprintf("%s (%s-%s)", short(r.Median), short(r.Low), short(r.High))
	}
	return []string{
		rates(local), rates(hop), ratio, median("local", "%.1f", p99), median(other, "%.1f", p99),
		median("local", "%.3f", own), median(other, "%.3f", own) + " + " + median(other, "%.3f", owners),
	}
}

// fleetSizesTable returns the table of configurations for many pods.
func (r *results) fleetSizesTable() (string, error) {
	d, err := readDocument[result.FleetSizes](filepath.Join(r.folder, "fleet-sizes.json"))
	if err != nil {
		return "", err
	}
	lines := [][]string{{
		"pods", "known by", "fleet.json, bytes", "nginx.conf, KiB", "render ms", "nginx -t ms", "reload ms",
		"memory of a worker, MiB", "memory of master and workers, MiB",
		"hits/s", "DNS queries/s, without requests", "ms CPU a second, without requests",
	}}
	for _, s := range d.Result.Sizes {
		by, queries := "address", "–"
		if s.Names {
			by, queries = "name", fmt.Sprintf("%.1f", s.Queries)
		}
		lines = append(lines, []string{
			fmt.Sprint(s.Pods), by, thousands(float64(s.Fleet)), fmt.Sprintf("%.0f", float64(s.Config)/1024),
			short(result.Median(s.Render)), short(result.Median(s.Test)), short(result.Median(s.Reload)),
			fmt.Sprintf("%.1f", s.Worker), fmt.Sprintf("%.1f", s.Processes), thousands(result.Median(s.PerSecond)),
			queries, fmt.Sprintf("%.1f", s.Rest),
		})
	}
	return fmt.Sprintf("Each pod has %d disks.\n"+
		"The figures for rendering, `nginx -t`, reloads and hits are medians of %d rounds.\n"+
		"The figures were measured on %s at commit %s ([JSON](fleet-sizes.json)).\n\n%s",
		d.Result.Disks, d.Result.Rounds, d.Date[:10], d.Commit, markdown(lines)), nil
}
