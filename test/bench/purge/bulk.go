package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// othersRate is the rate at which clients request objects that are not purged, in requests per second. These requests
// are sent before and during a purge.
const othersRate = 400

// spared is the time after the end of a purge during which the purge can still remove new responses. The reason is that
// the agents add a margin of two seconds to the end, and that the times in headers are whole seconds.
const spared = 3500 * time.Millisecond

// bulk measures purges of half of the objects.
func bulk(o options, kind string) (r result.PurgeBulk, err error) {
	r = result.PurgeBulk{
		Kind: kind, Rounds: o.rounds, Objects: o.objects, Purged: o.objects / 2, Window: o.window.Seconds(),
	}
	mebibytes := max(leastDisk, int64(o.objects/disks*6>>10)+200) // 6 KiB (1.5 blocks) an object, and the folders
	return r, withLab(o, disks*mebibytes, func(b *bench) error {
		var targets []target
		if b.chosen("cachenode") {
			p, err := b.startPod("pod", mebibytes)
			if err != nil {
				return err
			}
			targets = append(targets, target{"cachenode", "api", []pod{p}})
		}
		if b.chosen("varnish") {
			p, err := b.startVarnish()
			if err != nil {
				return err
			}
			targets = append(targets, target{"varnish-ban", "ban", []pod{p}})
		}
		for round := range o.rounds {
			for _, t := range targets {
				s, err := b.bulk(t, kind, round)
				if err != nil {
					return fmt.Errorf("%s: %w", t.system, err)
				}
				fmt.Fprintf(os.Stderr, "%+v\n", s)
				r.Samples = append(r.Samples, s)
			}
		}
		return nil
	})
}

// bulk fills a system, and then purges half of its objects.
func (b *bench) bulk(t target, kind string, round int) (s result.PurgeBulkSample, err error) {
	p := t.pods[0]
	j := job{
		Case: "fill", Servers: []endpoint{p.endpoint()}, Way: t.way, Kind: kind,
		Count: b.objects, Checked: min(b.checked, b.objects/2), Window: b.window,
	}
	fmt.Fprintf(os.Stderr, "%s is filled ...\n", t.system)
	if err := b.ask(j, &struct{}{}); err != nil {
		return s, err
	}
	var memory used
	if p.hasAgent {
		if memory, err = p.watch(); err != nil {
			return s, err
		}
	}
	j.Case = "bulk"
	if err := b.ask(j, &s); err != nil {
		return s, err
	}
	s.System, s.Round = t.system, round+1
	if p.hasAgent {
		s.MemoryBefore = memory.resident
		now, err := p.used()
		if err != nil {
			return s, err
		}
		s.MemoryPeak = now.peak
	}
	return s, nil
}

// bulk purges half of the objects, while clients request the other objects.
func (j job) bulk(ctx context.Context) (any, error) {
	c := newClient(j.Servers[0].HTTP)
	remove, end, err := j.bulkRemover(c)
	if err != nil {
		return nil, err
	}
	var begun atomic.Int64 // start of the purge as Unix time in ms; 0 if it has not started
	before, during := newRecorder(), newRecorder()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { stopped <- others(c, j.Count/2, stop, &begun, before, during) }()
	time.Sleep(j.Window)
	start := time.Now()
	begun.Store(start.UnixMilli())
	if err := remove(ctx); err != nil {
		return nil, err
	}
	s := result.PurgeBulkSample{Applied: time.Since(start).Seconds(), Checked: j.Checked}
	var hits atomic.Int64
	check := func(i int) error {
		made, err := c.made(object(tags[0], sizes[0], i))
		if err == nil && made < start.UnixMilli() {
			hits.Add(1)
		}
		return err
	}
	const first = 100 // objects to check right after the purge; more would disturb the measurement
	for i := range min(first, j.Checked) {
		if err := check(i); err != nil {
			return nil, err
		}
	}
	time.Sleep(time.Until(start.Add(j.Window)))
	close(stop)
	if err := <-stopped; err != nil {
		return nil, err
	}
	if err := each(j.Checked, check); err != nil {
		return nil, err
	}
	s.Hits, s.Before, s.During = hits.Load(), before.latencies(), during.latencies()
	return s, end(ctx)
}

// others sends requests at a fixed rate for objects that are not purged, until stop is closed. It measures each latency
// from the time at which the request was due.
func others(c client, count int, stop <-chan struct{}, begun *atomic.Int64, before, during *recorder) error {
	start := time.Now()
	return each(int(time.Hour.Seconds())*othersRate, func(i int) error {
		due := start.Add(time.Duration(i) * time.Second / othersRate)
		select {
		case <-stop:
			return nil
		case <-time.After(time.Until(due)):
		}
		to := before
		if begun.Load() > 0 {
			to = during
		}
		_, err := c.made(object(tags[1], sizes[0], i*7919%count))
		to.add(time.Since(due))
		return err
	})
}

// bulkRemover returns two functions: remove purges half of the objects, and end ends this purge.
func (j job) bulkRemover(c client) (remove, end func(context.Context) error, err error) {
	if j.Way == "ban" {
		what := "obj.http.Surrogate-Key ~ (^|[[:blank:]])" + tags[0] + "([[:blank:]]|$)"
		if j.Kind == "prefix" {
			what = "obj.http.X-URL ~ ^/" + tags[0] + "/"
		}
		var response fasthttp.Response
		return func(context.Context) error { return c.do("BAN", "/", what, &response) },
			func(context.Context) error { return nil }, nil
	}
	o, err := j.operator()
	if err != nil {
		return nil, nil, err
	}
	what := purge.Target{Tags: tags[:1]}
	if j.Kind == "prefix" {
		what = purge.Target{Prefixes: []string{"http://" + host + "/" + tags[0] + "/"}}
	}
	var rule purge.Rule
	remove = func(ctx context.Context) error {
		rule = o.add(what)
		return o.send(ctx)
	}
	end = func(ctx context.Context) error {
		o.seal(rule)
		defer time.Sleep(spared)
		return o.send(ctx)
	}
	return remove, end, nil
}
