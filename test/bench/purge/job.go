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

// job describes the work of a process in the clients' network namespace.
type job struct {
	// Case is "settle", "fill", "urls", "bulk" or "rate".
	Case string
	// Servers are the servers that are purged at the same time.
	Servers []endpoint
	// Way is how a server is purged: "api" (the agent's API, for CacheNode), "purge" (the method PURGE) or "ban" (the
	// method BAN).
	Way          string
	Certificates map[string][]byte
	Round        int
	// Count is the number of objects that the job requests or purges. Checked is the number of purged objects that the
	// job requests after the purge.
	Count, Checked int
	// Kind is "tag" or "prefix".
	Kind string
	// Rate is the number of purges a second, and Duration is the time during which the job sends purges. Window is the
	// duration of two measurements of requests: one before a purge, and one from the start of the purge on.
	Rate             int
	Duration, Window time.Duration
}

// endpoint contains the addresses of a server and of its agent, as HOST:PORT. Agent is "" for a server without an
// agent.
type endpoint struct{ HTTP, Agent string }

// host is the host in the URLs of all objects.
const host = "bench"

// answerJob reads a job from in, runs the job, and writes the result to out.
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

// made sends a GET, and returns the time at which the origin created the response, as Unix time in milliseconds.
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

// do sends a request. ban is the expression of a BAN; "" for other methods.
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

// each calls f for each number from 0 to count-1, with at most 16 calls at the same time.
func each(count int, f func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range count {
		group.Go(func() error { return f(i) })
	}
	return group.Wait()
}

// settle sends a purge that selects no object, and waits until the agents have applied this purge. The agents'
// indexes are then complete.
func (j job) settle(ctx context.Context) (any, error) {
	o, err := j.operator()
	if err != nil {
		return nil, err
	}
	o.add(nothing)
	return struct{}{}, o.send(ctx)
}

// tags lists the two tags of the objects. The tag of an object is also the first folder of its path. Half of the
// objects have the first tag, and a purge of half of the objects selects this half.
var tags = []string{"hot", "cold"}

// fill requests Count objects of 1 KiB from each server, half of them with each tag. For CacheNode, it then waits
// until the agents' indexes contain these objects.
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
