package main

import (
	"fmt"

	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// goal is the minimum of a ratio between CacheNode and another server, for one load of a result. The ratio is
// CacheNode's requests per second, divided by the other server's requests per second. The field least contains the
// minimum. The goal is reached if the ratio is not smaller.
type goal struct {
	label, result string
	load          int
	server        string
	least         float64
	// atRate is the index of a fixed rate in the result; nil to compare requests per second. At a fixed rate, the ratio is
	// the other server's p99, divided by CacheNode's p99.
	atRate *int
}

const (
	trafficServer = "trafficserver"
	plainNginx    = "nginx"
	theArticle    = "article"
	// articlePrepared is the name of the article's configuration on disks that are prepared like CacheNode's disks.
	articlePrepared = "article-prepared"
	varnish         = "varnish"
)

// goals are the goals of docs/benchmarks/goals.md.
var goals = []goal{
	{"fast disks, 4 KiB, random", "fast-4k-random", 0, trafficServer, 0.9, nil},
	{"fast disks, 64 KiB, random", "fast-64k-random", 0, trafficServer, 0.9, nil},
	{"fast disks, 1 MiB, random", "fast-1m-random", 0, trafficServer, 0.9, nil},
	{"fast disks, 4 KiB, random", "fast-4k-random", 0, plainNginx, 1.5, nil},
	{"fast disks, 64 KiB, random", "fast-64k-random", 0, plainNginx, 1.5, nil},
	{"fast disks, 1 MiB, random", "fast-1m-random", 0, plainNginx, 1.5, nil},
	{"fast disks, 4 KiB, hot beside random", "fast-4k-both", 1, trafficServer, 0.8, nil},
	{"fast disks, 64 KiB, hot beside random", "fast-64k-both", 1, trafficServer, 1, nil},
	{"the same, p99 at 80% of each server's rate", "fast-64k-both", 1, trafficServer, 1, new(1)},
	{"fast disks, 1 MiB, hot beside random", "fast-1m-both", 1, trafficServer, 1, nil},
	{"the same, p99 at 80% of each server's rate", "fast-1m-both", 1, trafficServer, 1, new(1)},
	{"hard disks, 64 KiB, random", "slow-64k-300", 0, trafficServer, 1, nil},
	{"hard disks, 64 KiB, random", "slow-64k-300", 0, theArticle, 4, nil},
	{"hard disks, 64 KiB, hot beside random", "slow-64k-300", 1, trafficServer, 1, nil},
	{"hard disks, 1 MiB, random", "slow-1m-300", 0, trafficServer, 1, nil},
	{"hard disks, 1 MiB, random", "slow-1m-300", 0, theArticle, 5, nil},
	{"hard disks, 1 MiB, hot beside random", "slow-1m-300", 1, trafficServer, 1, nil},
	{"hard disks, 64 KiB, mix with misses", "zipf-64k-used", 0, trafficServer, 1, nil},
	{"hard disks, 64 KiB, mix with misses", "zipf-64k-used", 0, varnish, 1, nil},
}

// ratio returns the measured ratio of the goal. goalTable compares this ratio with the field least.
func (g goal) ratio(d document) (result.Ratio, error) {
	ratio, ok := against(d, g.server, g.load)
	if g.atRate != nil {
		latency := func(s result.Sample) float64 { return s.AtRate[*g.atRate].Loads[g.load].P99 }
		ratio = result.Paired(figures(d, g.server, latency), figures(d, ownName, latency))
	}
	if !ok {
		return ratio, fmt.Errorf("%s.json has no %s", g.result, g.server)
	}
	return ratio, nil
}

// goalTable returns the table of the goals, with the measured ratio of each goal, and whether the goal is reached.
func (r *results) goalTable() (string, error) {
	lines := [][]string{{"case", "other server", "goal", "measured", "reached"}}
	for _, g := range goals {
		d, err := r.result(g.result)
		if err != nil {
			return "", err
		}
		ratio, err := g.ratio(d)
		if err != nil {
			return "", err
		}
		reached := "yes"
		if ratio.Median < g.least {
			reached = "**no**"
		}
		lines = append(lines, []string{
			g.label, tableName(g.server), fmt.Sprintf("%.1f", g.least),
			fmt.Sprintf("%s (%s-%s)", short(ratio.Median), short(ratio.Low), short(ratio.High)), reached,
		})
	}
	return markdown(lines), nil
}
