package main

import (
	"fmt"
	"time"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// ways lists the measured ways in which nginx finds the disk of a path. "one disk" has only one disk to choose. "by
// hand" uses three percentages. "one block" uses a plan of three disks in a single split_clients block. "two levels"
// uses the same plan in two levels of blocks, as the operator renders it.
var ways = []string{"one disk", "by hand", "one block", "two levels"}

// price is one measurement of a way. PerSecond is the number of requests per second, and CPU is the worker's processor
// time for a request in microseconds.
type price struct {
	PerSecond float64 `json:"perSecond"`
	CPU       float64 `json:"cpuMicrosecondsPerRequest"`
}

// cost measures nginx with each of the ways, in several rounds. It returns the prices and the numbers of ranges, both
// by way.
func cost(rounds int, duration time.Duration) (prices map[string][]price, ranges map[string]int, err error) {
	dir, err := lab.Recipe("hack/nginx-root")
	if err != nil {
		return nil, nil, err
	}
	l, err := lab.New("")
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if closeErr := l.Close(); err == nil {
			err = closeErr
		}
	}()
	blocks, ranges := configurations()
	sites, servers := map[string]lab.Site{}, map[string]*lab.Server{}
	for i, way := range ways {
		text, err := whole(blocks[way])
		if err != nil {
			return nil, nil, err
		}
		if sites[way], servers[way], err = l.Nginx(fmt.Sprintf("way%d", i), dir, text); err != nil {
			return nil, nil, err
		}
	}
	prices = map[string][]price{}
	for round := range rounds {
		for i := range ways {
			way := ways[(i+round)%len(ways)]
			p, err := ask(l, sites[way], servers[way], duration)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", way, err)
			}
			prices[way] = append(prices[way], p)
		}
	}
	return prices, ranges, nil
}

func ask(l *lab.Lab, site lab.Site, server *lab.Server, duration time.Duration) (price, error) {
	load := lab.Load{Name: "paths", Connections: 32, Lua: `return "/objects/" .. math.random(1, 1e9)`}
	before, err := server.Workers()
	if err != nil {
		return price{}, err
	}
	answers, err := l.Ask(site.URL(), duration, load)
	if err != nil {
		return price{}, err
	}
	after, err := server.Workers()
	if err != nil {
		return price{}, err
	}
	a := answers[0]
	if a.Errors > 0 || a.Requests == 0 {
		return price{}, fmt.Errorf("%d of %d requests failed", a.Errors, a.Requests)
	}
	sum, _ := lab.Used(before, after)
	return price{PerSecond: a.PerSecond, CPU: float64(sum.Microseconds()) / float64(a.Requests)}, nil
}

// configurations returns two maps by way: the directives that set $disk, and the number of ranges in these
// directives.
func configurations() (map[string]conf.Block, map[string]int) {
	plan := shard.NewPlan([]shard.Member{
		{Name: "disk1", Weight: 1}, {Name: "disk2", Weight: 1}, {Name: "disk3", Weight: 1},
	})
	var flat shard.Split
	for slot := range shard.Slots {
		if n := len(flat); n > 0 && flat[n-1].Value == plan.Owner(slot) {
			flat[n-1].Width++
			continue
		}
		flat = append(flat, shard.Range{Width: 1, Value: plan.Owner(slot)})
	}
	flat[len(flat)-1].Width = 0

	tree := plan.Tree()
	choice := conf.B("map", []conf.Argument{conf.Expression("$group"), conf.Expression("$disk")})
	levels := conf.Block{split("$group", tree.Root)}
	for _, g := range tree.Groups {
		choice.Block = append(choice.Block, conf.D(g.Name, conf.Expression("$shard_"+g.Name)))
		levels = append(levels, split("$shard_"+g.Name, g.Split))
	}
	hand := shard.Split{{Width: 3333, Value: "disk1"}, {Width: 3333, Value: "disk2"}, {Value: "disk3"}}
	blocks := map[string]conf.Block{
		"one disk": {split("$disk", shard.Split{{Value: "disk1"}})}, "by hand": {split("$disk", hand)},
		"one block": {split("$disk", flat)}, "two levels": append(levels, choice),
	}
	return blocks, map[string]int{"one disk": 1, "by hand": 3, "one block": len(flat), "two levels": tree.Ranges()}
}

func split(variable string, ranges shard.Split) conf.Directive {
	d := conf.B("split_clients", []conf.Argument{conf.Expression("$request_uri"), conf.Expression(variable)})
	for _, r := range ranges {
		width := "*"
		if r.Width > 0 {
			width = conf.Percent(r.Width)
		}
		d.Block = append(d.Block, conf.D(width, conf.Literal(r.Value)))
	}
	return d
}

// whole returns a complete configuration with one worker. With this configuration, nginx answers each request with the
// name of the disk to which the path belongs.
func whole(shards conf.Block) (string, error) {
	server := conf.B("server", nil,
		conf.D("listen", conf.Literal(fmt.Sprint(lab.Port))),
		conf.B("location", conf.Literals("/"), conf.D("return", conf.Literal("200"), conf.Expression("$disk"))))
	return conf.Write(conf.Block{
		conf.D("daemon", conf.OnOff(false)),
		conf.D("pid", conf.Literal("/tmp/nginx.pid")),
		conf.D("worker_processes", conf.Literal("1")),
		conf.B("events", nil),
		conf.B("http", nil, append(conf.Block{
			conf.D("access_log", conf.OnOff(false)), conf.D("keepalive_requests", conf.Literal("1000000")),
		}, append(shards, server)...)...),
	})
}
