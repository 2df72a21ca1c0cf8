package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Load describes the requests that clients send.
type Load struct {
	// Name identifies the load among the loads of the same measurement.
	Name string
	// Connections is the number of connections that send requests. Each connection sends its next request as soon as it
	// has received the previous response.
	Connections int
	// Lua is the body of a Lua function for wrk that returns the path of the next request. Path is a Go function that
	// returns such a path too.
	Lua  string
	Path func() string
}

// Random returns a load for count objects of a size. All objects are requested equally often.
func Random(name string, connections, count int, size int64) Load {
	lua := fmt.Sprintf(`return "/objects/%d/" .. math.random(0, %d)`, size, count-1)
	return Load{Name: name, Connections: connections, Lua: lua, Path: func() string {
		return fmt.Sprintf("/objects/%d/%d", size, rand.IntN(count))
	}}
}

// One returns a load for a single object.
func One(name string, connections int, path string) Load {
	return Load{
		Name: name, Connections: connections, Lua: fmt.Sprintf("return %q", path), Path: func() string { return path },
	}
}

// Zipf returns a load for count objects. The object of rank n is requested about 1/n times as often as the first
// object. missPercent is the percentage of requests for new objects, which nobody has requested before.
func Zipf(name string, connections, count, missPercent int, size int64) Load {
	return Load{Name: name, Connections: connections, Lua: fmt.Sprintf(`
  if math.random(100) <= %d then return "/objects/%d/new-" .. math.random(1, 2^52) end
  return "/objects/%d/" .. math.floor(%d ^ math.random()) - 1`, missPercent, size, size, count), Path: func() string {
		if rand.IntN(100) < missPercent {
			return fmt.Sprintf("/objects/%d/new-%d", size, rand.Int64N(1<<52))
		}
		return fmt.Sprintf("/objects/%d/%d", size, int(math.Pow(float64(count), rand.Float64()))-1)
	}}
}

// Answers describes how a server answered a load.
type Answers struct {
	// PerSecond is the number of requests per second. P50, P99, Max, Mean and Deviation (the standard deviation) are
	// latencies in milliseconds.
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50ms"`
	P99       float64 `json:"p99ms"`
	Max       float64 `json:"maxms"`
	Mean      float64 `json:"meanms"`
	Deviation float64 `json:"deviationms"`
	Requests  int64   `json:"requests"`
	// Bytes is the size of all responses, including their headers.
	Bytes int64 `json:"bytes"`
	// Errors is the sum of three numbers: responses with a status of 400 or more, responses that took longer than a
	// minute, and errors of connections.
	Errors int64 `json:"errors"`
}

const wrkScript = `
local thread = 0
function setup(t) thread = thread + 1; t:set("number", thread) end
function init() math.randomseed(%d * 1000 + number) end
local function path()
%s
end
function request() return wrk.format("GET", path()) end
function done(summary, latency)
  local e, seconds = summary.errors, summary.duration / 1e6
  local p = function(x) return latency:percentile(x) / 1000 end
  io.stderr:write(string.format(
    '{"perSecond":%%.3f,"p50ms":%%.3f,"p99ms":%%.3f,"maxms":%%.3f,"meanms":%%.3f,"deviationms":%%.3f,` +
	`"requests":%%d,"bytes":%%d,"errors":%%d}\n',
    summary.requests / seconds, p(50), p(99), latency.max / 1000, latency.mean / 1000, latency.stdev / 1000, ` +
	`summary.requests, summary.bytes, e.connect + e.read + e.write + e.status + e.timeout))
end
`

// Ask sends loads to a server at the same time, each from its own process, and returns how the server answered them.
func (l *Lab) Ask(url string, duration time.Duration, loads ...Load) ([]Answers, error) {
	clients := make([]*exec.Cmd, len(loads))
	outputs := make([]bytes.Buffer, len(loads))
	for i, load := range loads {
		file := filepath.Join(l.Dir, load.Name+".lua")
		if err := os.WriteFile(file, fmt.Appendf(nil, wrkScript, time.Now().UnixNano()%1e6, load.Lua), 0o600); err != nil {
			return nil, err
		}
		clients[i] = l.Client("wrk", "-t1", "-c"+strconv.Itoa(load.Connections),
			fmt.Sprintf("-d%ds", int(duration.Seconds())), "--timeout", "60s", "-s", file, url)
		clients[i].Stderr = &outputs[i]
	}
	return together(clients, outputs)
}

// AskAtRate sends loads as Ask does, but each load sends a fixed number of requests per second, even if the server is
// slow. client is the path of the program test/bench/rate. address is the server's HOST:PORT. The latency of a request
// is measured from the time at which the request was due.
func (l *Lab) AskAtRate(
	client, address string, duration time.Duration, loads []Load, rates []float64,
) ([]Answers, error) {
	clients := make([]*exec.Cmd, len(loads))
	outputs := make([]bytes.Buffer, len(loads))
	for i, load := range loads {
		var paths strings.Builder
		for range max(int(rates[i]*duration.Seconds()), 1) {
			_, _ = fmt.Fprintln(&paths, load.Path())
		}
		clients[i] = l.Client(client, "-address", address, "-rate", fmt.Sprint(rates[i]),
			"-connections", strconv.Itoa(load.Connections), "-seconds", fmt.Sprint(duration.Seconds()))
		clients[i].Stdin, clients[i].Stdout, clients[i].Stderr = strings.NewReader(paths.String()), &outputs[i], &outputs[i]
	}
	return together(clients, outputs)
}

// together runs clients at the same time, and returns the answers that each client writes to its output as JSON.
func together(clients []*exec.Cmd, outputs []bytes.Buffer) ([]Answers, error) {
	answers, errs := make([]Answers, len(clients)), make([]error, len(clients))
	for i, client := range clients {
		errs[i] = client.Start()
	}
	for i, client := range clients {
		if errs[i] != nil {
			continue
		}
		if errs[i] = client.Wait(); errs[i] == nil {
			errs[i] = json.Unmarshal(outputs[i].Bytes(), &answers[i])
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w\n%s", strings.Join(client.Args, " "), errs[i], &outputs[i])
		}
	}
	return answers, errors.Join(errs...)
}
