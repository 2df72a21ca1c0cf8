package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"
)

// job is what is to be done where the clients are.
type job struct {
	// Case is settle, fill, urls, bulk or rate.
	Case string
	// Servers are those that are purged at once.
	Servers []endpoint
	// Way is how a server is purged: api (CacheNode), purge or ban.
	Way          string
	Certificates map[string][]byte
	Round        int
	// Count is how many objects are filled or purged, and Checked how many of them are requested afterwards.
	Count, Checked int
	// Kind is tag or prefix.
	Kind string
	// Rate is purges a second, for so long; Window is how long requests are measured before and after a purge.
	Rate             int
	Duration, Window time.Duration
}

// endpoint is where a server and its agent answer, as HOST:PORT. Agent is "" for a peer.
type endpoint struct{ HTTP, Agent string }

// host is the host of all objects.
const host = "bench"

// answerJob does the job that it reads, and writes what was measured.
func answerJob(in io.Reader, out io.Writer) error {
	var j job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return err
	}
	do, ok := map[string]func(job, context.Context) (any, error){
		"settle": job.settle, "fill": job.fill, "urls": job.urls, "bulk": job.bulk, "rate": job.rate,
	}[j.Case]
	if !ok {
		return fmt.Errorf("there is no job %q", j.Case)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	measured, err := do(j, ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(measured)
}

// client requests objects of a server. It is safe for concurrent use.
type client struct{ http *fasthttp.HostClient }

func newClient(address string) client {
	return client{&fasthttp.HostClient{
		Addr: address, MaxConns: 64, ReadTimeout: time.Minute, MaxIdemponentCallAttempts: 1,
	}}
}

// made returns when the origin made the response to a GET, as Unix time in milliseconds.
func (c client) made(path string) (int64, error) {
	var response fasthttp.Response
	if err := c.do("GET", path, "", &response); err != nil {
		return 0, err
	}
	at, err := strconv.ParseInt(strings.ReplaceAll(string(response.Header.Peek("X-Made")), ".", ""), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: X-Made: %w", path, err)
	}
	return at, nil
}

// do sends a request. ban is what a BAN bans.
func (c client) do(method, path, ban string, response *fasthttp.Response) error {
	var request fasthttp.Request
	request.Header.SetMethod(method)
	request.SetRequestURI("http://" + host + path)
	if ban != "" {
		request.Header.Set("X-Ban", ban)
	}
	if err := c.http.Do(&request, response); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if status := response.StatusCode(); status != fasthttp.StatusOK {
		return fmt.Errorf("%s %s: status %d", method, path, status)
	}
	return nil
}

// each calls a function for the numbers below count, a few at a time.
func each(count int, f func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range count {
		group.Go(func() error { return f(i) })
	}
	return group.Wait()
}

// settle waits until agents have applied a purge of nothing: their indexes are complete then.
func (j job) settle(ctx context.Context) (any, error) {
	o, err := j.operator()
	if err != nil {
		return nil, err
	}
	o.add(nothing)
	return struct{}{}, o.send(ctx)
}

// tags are the first folders of objects: half of the objects are to be purged.
var tags = []string{"hot", "cold"}

// fill requests Count objects of 1 KiB, half of them with each tag, and waits until agents know them.
func (j job) fill(ctx context.Context) (any, error) {
	for _, s := range j.Servers {
		c := newClient(s.HTTP)
		if err := each(j.Count, func(i int) error {
			_, err := c.made(object(tags[i%2], sizes[0], i/2))
			return err
		}); err != nil {
			return nil, err
		}
	}
	if j.Way != "api" {
		return struct{}{}, nil
	}
	return j.settle(ctx)
}
