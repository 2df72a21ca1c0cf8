package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/bench/result"
	"github.com/cachenode/cachenode-operator/test/lab"
)

const (
	// costConnections is the number of connections of a load. costDisk is the size of a disk in MiB. hitObjects is the
	// number of different objects that the load of HITs requests.
	costConnections = 16
	costDisk        = 3072
	hitObjects      = 2000
)

// cost measures how much an agent with its index slows nginx down. It measures stores and HITs on two pods in turn. One
// pod has an agent, and the agent of the other pod was killed.
func cost(o options) (r result.PurgeCost, err error) {
	duration := cmp.Or(o.seconds, 2*time.Second)
	r = result.PurgeCost{Rounds: o.rounds, Seconds: duration.Seconds()}
	return r, withLab(o, 2*disks*costDisk, func(b *bench) error {
		var pods []pod
		for _, name := range []string{"with", "without"} {
			p, err := b.startPod(name, costDisk)
			if err != nil {
				return err
			}
			j := job{Case: "fill", Servers: []endpoint{p.endpoint()}, Count: 2 * hitObjects}
			if err := b.ask(j, &struct{}{}); err != nil {
				return err
			}
			pods = append(pods, p)
		}
		if err := pods[1].kill(); err != nil {
			return err
		}
		pods[1].hasAgent = false
		for round := range o.rounds {
			for _, l := range costLoads(round) {
				for i := range pods {
					s, err := b.cost(pods[(i+round)%len(pods)], l, duration)
					if err != nil {
						return err
					}
					s.Round = round + 1
					fmt.Fprintf(os.Stderr, "%+v\n", s)
					r.Samples = append(r.Samples, s)
				}
			}
		}
		r.IndexBytes, r.Files, err = pods[0].indexed()
		return err
	})
}

// costLoad is one load of the benchmark of the agent's cost. kind is "stores" or "hits", and bytes is the size of the
// objects.
type costLoad struct {
	kind  string
	bytes int
	lab.Load
}

// costLoads returns the loads of a round. In a load of the kind "stores", each request is for a new object.
func costLoads(round int) (list []costLoad) {
	for _, size := range sizes {
		list = append(list, costLoad{"stores", size, lab.Load{
			Name: fmt.Sprintf("stores-%d", size), Connections: costConnections,
			Lua: fmt.Sprintf(`n = (n or 0) + 1; return "%s" .. n`, object("new", size, fmt.Sprintf("%d-", round))),
		}})
	}
	return append(list, costLoad{"hits", sizes[0], lab.Load{
		Name: "hits", Connections: costConnections,
		Lua: fmt.Sprintf(`return "%s" .. math.random(0, %d)`, object(tags[0], sizes[0], ""), hitObjects-1),
	}})
}

// cost measures a pod once with a load. If the pod has an agent, it then waits until the agent's index is complete.
func (b *bench) cost(p pod, l costLoad, duration time.Duration) (s result.PurgeCostSample, err error) {
	before, err := p.server.Use()
	if err != nil {
		return s, err
	}
	answers, err := b.Ask(p.site.URL(), duration, l.Load)
	if err != nil {
		return s, err
	}
	after, err := p.server.Use()
	if err != nil {
		return s, err
	}
	s = result.PurgeCostSample{
		Agent: p.hasAgent, Load: l.kind, Bytes: l.bytes, Answers: answers[0], Reads: after.Reads - before.Reads,
		CPU: float64((after.CPU - before.CPU).Microseconds()) / 1000 / float64(max(answers[0].Requests, 1)),
	}
	if s.Answers.Errors > 0 || s.Answers.Requests == 0 {
		return s, fmt.Errorf("%s: %+v", l.Name, s.Answers)
	}
	if !p.hasAgent {
		return s, nil
	}
	begun := time.Now()
	err = b.ask(job{Case: "settle", Servers: []endpoint{p.endpoint()}}, &struct{}{})
	s.CatchUp = time.Since(begun).Seconds()
	return s, err
}

// indexed returns the size of a pod's index files in bytes, and the number of files in the pod's cache.
func (p pod) indexed() (bytes, files int64, err error) {
	for _, d := range p.disks {
		own := filepath.Join(d.Dir, layout.OwnFolder)
		indexes, err := filepath.Glob(filepath.Join(own, "index-*"))
		if err != nil {
			return 0, 0, err
		}
		for _, index := range indexes {
			n, err := diskBytes(index)
			if err != nil {
				return 0, 0, err
			}
			bytes += n
		}
		err = filepath.WalkDir(filepath.Join(own, "cache"), func(_ string, entry os.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				files++
			}
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return bytes, files, nil
}
