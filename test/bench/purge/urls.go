package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/bench/result"
)

// target is a system whose pods are purged together. way is the value of job.Way for this system.
type target struct {
	system, way string
	pods        []pod
}

// urls measures purges of single URLs.
func urls(o options) (r result.PurgeURLs, err error) {
	r = result.PurgeURLs{Rounds: o.rounds, Times: o.times}
	return r, withLab(o, (3*disks+1)*leastDisk, func(b *bench) error {
		targets, err := b.targets()
		if err != nil {
			return err
		}
		for round := range o.rounds {
			for _, i := range rand.Perm(len(targets)) {
				t := targets[i]
				j := job{Case: "urls", Way: t.way, Count: o.times, Round: round}
				for _, p := range t.pods {
					j.Servers = append(j.Servers, p.endpoint())
				}
				var s result.PurgeURLSample
				if err := b.ask(j, &s); err != nil {
					return fmt.Errorf("%s: %w", t.system, err)
				}
				s.System, s.Round = t.system, round+1
				fmt.Fprintf(os.Stderr, "%+v\n", s)
				r.Samples = append(r.Samples, s)
			}
		}
		return nil
	})
}

// targets starts the systems to compare, and returns them.
func (b *bench) targets() (list []target, err error) {
	if b.chosen("cachenode") {
		var pods []pod
		for i := range 3 {
			p, err := b.startPod(fmt.Sprintf("pod%d", i), leastDisk)
			if err != nil {
				return nil, err
			}
			pods = append(pods, p)
		}
		list = append(list, target{"cachenode", "api", pods[:1]}, target{"cachenode-3", "api", pods})
	}
	if b.chosen("varnish") {
		p, err := b.startVarnish()
		if err != nil {
			return nil, err
		}
		list = append(list, target{"varnish-purge", "purge", []pod{p}}, target{"varnish-ban", "ban", []pod{p}})
	}
	if b.chosen("trafficserver") {
		p, err := b.startTrafficServer()
		if err != nil {
			return nil, err
		}
		list = append(list, target{"trafficserver", "purge", []pod{p}})
	}
	return list, nil
}

// urls purges URLs one after another. Each URL is in the cache before its purge, and is requested as soon as the call
// that purges it has returned.
func (j job) urls(ctx context.Context) (any, error) {
	var clients []client
	for _, s := range j.Servers {
		clients = append(clients, newClient(s.HTTP))
	}
	remove, end, err := j.remover(clients)
	if err != nil {
		return nil, err
	}
	path := func(i int) string {
		return object("page", sizes[0], fmt.Sprintf("%s-%d-%d-%d", j.Way, len(clients), j.Round, i))
	}
	for i := range j.Count {
		for _, c := range clients {
			if err := c.stored(path(i)); err != nil {
				return nil, err
			}
		}
	}
	answered, fresh := newRecorder(), newRecorder()
	s := result.PurgeURLSample{}
	for i := range j.Count {
		begun := time.Now()
		if err := remove(ctx, path(i)); err != nil {
			return nil, err
		}
		answered.add(time.Since(begun))
		hits, err := awaitFresh(clients, path(i), begun)
		if err != nil {
			return nil, err
		}
		fresh.add(time.Since(begun))
		s.Hits += hits
		if err := end(ctx); err != nil {
			return nil, err
		}
	}
	s.Answered, s.Fresh = answered.latencies(), fresh.latencies()
	return s, nil
}

// stored requests an object until the response comes from the cache. This is the case when two responses in a row have
// the same time of creation.
func (c client) stored(path string) error {
	before := int64(0)
	for range 10 {
		made, err := c.made(path)
		if err != nil || made == before {
			return err
		}
		before = made
		time.Sleep(2 * time.Millisecond) // so that a new response of the origin has another time of creation
	}
	return fmt.Errorf("%s is not stored", path)
}

// awaitFresh requests an object from all servers, until each server returns a response that the origin created at the
// time begun or later. It returns the number of responses that the origin created earlier.
func awaitFresh(clients []client, path string, begun time.Time) (hits int64, err error) {
	counts := make([]int64, len(clients))
	var group errgroup.Group
	for i, c := range clients {
		group.Go(func() error {
			for {
				made, err := c.made(path)
				if err != nil || made >= begun.UnixMilli() {
					return err
				}
				counts[i]++
			}
		})
	}
	err = group.Wait()
	for _, n := range counts {
		hits += n
	}
	return hits, err
}

// remover returns two functions: remove purges a URL, and end ends this purge. The measured times do not include end.
func (j job) remover(clients []client) (
	remove func(ctx context.Context, path string) error, end func(context.Context) error, err error,
) {
	end = func(context.Context) error { return nil }
	var response fasthttp.Response
	switch j.Way {
	case "purge":
		return func(_ context.Context, path string) error { return clients[0].do("PURGE", path, "", &response) }, end, nil
	case "ban":
		return func(_ context.Context, path string) error {
			return clients[0].do("BAN", "/", "obj.http.X-URL == "+path, &response)
		}, end, nil
	}
	o, err := j.operator()
	if err != nil {
		return nil, nil, err
	}
	var last purge.Rule
	remove = func(ctx context.Context, path string) error {
		last = o.add(purge.Target{URLs: []string{"http://" + host + path}})
		return o.send(ctx)
	}
	end = func(ctx context.Context) error {
		o.seal(last)
		return o.send(ctx)
	}
	return remove, end, nil
}
