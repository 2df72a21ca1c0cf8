package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/test/bench/lab"
)

// ways in which nginx finds the disk of a path: none at all, the three percentages that one writes by hand, a plan of three
// disks in one block, and the same in two levels, as the operator renders it.
var ways = []string{"one disk", "by hand", "one block", "two levels"}

// cost measures nginx, the ways taking turns.
func cost(rounds int, duration time.Duration) (rates map[string][]float64, ranges map[string]int, err error) {
	root := exec.Command("hack/nginx-root")
	root.Stderr = os.Stderr
	dir, err := root.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("hack/nginx-root: %w (run it from the top folder)", err)
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
	sites := map[string]lab.Site{}
	for i, way := range ways {
		text, err := whole(blocks[way])
		if err != nil {
			return nil, nil, err
		}
		site, err := l.Site(fmt.Sprintf("way%d", i))
		if err != nil {
			return nil, nil, err
		}
		sites[way] = site
		files := lab.Root{Dir: strings.TrimSpace(string(dir)), Tmpfs: []string{"/tmp"}, Files: map[string]string{"/tmp/nginx.conf": text}}
		server, err := l.Start(fmt.Sprintf("way%d", i), site, nil, files, "nginx", "-c", "/tmp/nginx.conf", "-e", "stderr")
		if err != nil {
			return nil, nil, err
		}
		if err := l.Await(site, server, lab.Port); err != nil {
			return nil, nil, err
		}
	}
	rates = map[string][]float64{}
	load := lab.Load{Name: "paths", Connections: 32, Lua: `return "/objects/" .. math.random(1, 1e9)`}
	for range rounds {
		for _, way := range ways {
			answers, err := l.Ask(sites[way].URL(), duration, load)
			if err != nil {
				return nil, nil, err
			}
			if answers[0].Errors > 0 || answers[0].Requests == 0 {
				return nil, nil, fmt.Errorf("%s: %d of %d requests failed", way, answers[0].Errors, answers[0].Requests)
			}
			rates[way] = append(rates[way], answers[0].PerSecond)
		}
	}
	return rates, ranges, nil
}

// configurations are the blocks that find $disk, and how many ranges they have.
func configurations() (map[string]conf.Block, map[string]int) {
	plan := shard.NewPlan([]shard.Disk{{Name: "disk1", Weight: 1}, {Name: "disk2", Weight: 1}, {Name: "disk3", Weight: 1}})
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

// whole is a configuration of one worker that answers with the disk.
func whole(shards conf.Block) (string, error) {
	server := conf.B("server", nil,
		conf.D("listen", conf.Literal(fmt.Sprint(lab.Port))),
		conf.B("location", conf.Literals("/"), conf.D("return", conf.Literal("200"), conf.Expression("$disk"))))
	return conf.Write(conf.Block{
		conf.D("daemon", conf.OnOff(false)),
		conf.D("pid", conf.Literal("/tmp/nginx.pid")),
		conf.D("worker_processes", conf.Literal("1")),
		conf.B("events", nil),
		conf.B("http", nil, append(conf.Block{conf.D("access_log", conf.OnOff(false)), conf.D("keepalive_requests", conf.Literal("1000000"))}, append(shards, server)...)...),
	})
}
