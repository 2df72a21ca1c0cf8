// Command splitclients writes three nginx configurations that answer with the disk of a request's path, for measuring what
// the ranges of split_clients cost: none.conf (no sharding), flat.conf (all ranges of a plan of three disks in one block)
// and tree.conf (the same plan in two levels, as the operator renders it).
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/cachenode/cachenode-operator/internal/nginx/conf"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: splitclients FOLDER")
	}
	plan := shard.NewPlan([]shard.Disk{{Name: "disk1", Weight: 1}, {Name: "disk2", Weight: 1}, {Name: "disk3", Weight: 1}})
	tree := plan.Tree()
	log.Printf("%d ranges in two levels", tree.Ranges())

	var flat shard.Split
	for slot := range shard.Slots {
		if n := len(flat); n > 0 && flat[n-1].Value == plan.Owner(slot) {
			flat[n-1].Width++
			continue
		}
		flat = append(flat, shard.Range{Width: 1, Value: plan.Owner(slot)})
	}
	flat[len(flat)-1].Width = 0
	log.Printf("%d ranges in one block", len(flat))

	choice := conf.B("map", []conf.Argument{conf.Expression("$group"), conf.Expression("$disk")})
	levels := conf.Block{split("$group", tree.Root)}
	for _, g := range tree.Groups {
		choice.Block = append(choice.Block, conf.D(g.Name, conf.Expression("$shard_"+g.Name)))
		levels = append(levels, split("$shard_"+g.Name, g.Split))
	}
	write("none.conf", conf.Block{split("$disk", shard.Split{{Value: "disk1"}})})
	write("flat.conf", conf.Block{split("$disk", flat)})
	write("tree.conf", append(levels, choice))
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

func write(name string, shards conf.Block) {
	server := conf.B("server", nil,
		conf.D("listen", conf.Literal("127.0.0.1:8080")),
		conf.B("location", conf.Literals("/"), conf.D("return", conf.Literal("200"), conf.Expression("$disk"))))
	text, err := conf.Write(conf.Block{
		conf.D("daemon", conf.OnOff(false)),
		conf.D("pid", conf.Literal("/tmp/nginx.pid")),
		conf.D("worker_processes", conf.Literal("1")),
		conf.B("events", nil),
		conf.B("http", nil, append(conf.Block{conf.D("access_log", conf.OnOff(false)), conf.D("keepalive_requests", conf.Literal("1000000"))}, append(shards, server)...)...),
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Args[1], name), []byte(text), 0o600)
	}
	if err != nil {
		log.Fatal(err)
	}
}
