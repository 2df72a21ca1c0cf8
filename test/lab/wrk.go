package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Load is what clients request.
type Load struct {
	// Name distinguishes the load from others of the same measurement.
	Name string
	// Connections is how many connections send requests, each as soon as it has the last response.
	Connections int
	// Lua is the body of a function that returns the next path.
	Lua string
}

// Random requests any of count objects of a size, each as often.
func Random(name string, connections, count int, size int64) Load {
	lua := fmt.Sprintf(`return "/objects/%d/" .. math.random(0, %d)`, size, count-1)
	return Load{Name: name, Connections: connections, Lua: lua}
}

// One requests one object.
func One(name string, connections int, path string) Load {
	return Load{Name: name, Connections: connections, Lua: fmt.Sprintf("return %q", path)}
}

// Zipf requests count objects, the one of rank n about 1/n as often as the first. missPercent of the requests are for
// objects that nobody has requested.
func Zipf(name string, connections, count, missPercent int, size int64) Load {
	return Load{Name: name, Connections: connections, Lua: fmt.Sprintf(`
  if math.random(100) <= %d then return "/objects/%d/new-" .. math.random(1, 2^52) end
  return "/objects/%d/" .. math.floor(%d ^ math.random()) - 1`, missPercent, size, size, count)}
}

// Answers is how a load was answered.
type Answers struct {
	// PerSecond is requests. P50, P99, Max, Mean and Deviation (standard) are latencies in milliseconds.
	PerSecond float64 `json:"perSecond"`
	P50       float64 `json:"p50ms"`
	P99       float64 `json:"p99ms"`
	Max       float64 `json:"maxms"`
	Mean      float64 `json:"meanms"`
	Deviation float64 `json:"deviationms"`
	Requests  int64   `json:"requests"`
	// Bytes are those of all responses, including their headers.
	Bytes int64 `json:"bytes"`
	// Errors are responses with a status of 400 or more, those that took longer than a minute, and connections that broke.
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

// Ask puts loads on a server at the same time, each from its own process, and returns how they were answered.
func (l *Lab) Ask(url string, duration time.Duration, loads ...Load) ([]Answers, error) {
	processes, outputs := make([]*exec.Cmd, len(loads)), make([]bytes.Buffer, len(loads))
	var errs []error
	for i, load := range loads {
		file := filepath.Join(l.Dir, load.Name+".lua")
		if err := os.WriteFile(file, fmt.Appendf(nil, wrkScript, time.Now().UnixNano()%1e6, load.Lua), 0o600); err != nil {
			return nil, err
		}
		processes[i] = l.Client("wrk", "-t1", "-c"+strconv.Itoa(load.Connections),
			fmt.Sprintf("-d%ds", int(duration.Seconds())), "--timeout", "60s", "-s", file, url)
		processes[i].Stderr = &outputs[i]
		errs = append(errs, processes[i].Start())
	}
	answers := make([]Answers, len(loads))
	for i := range loads {
		if errs[i] != nil {
			continue
		}
		if err := processes[i].Wait(); err != nil {
			errs[i] = fmt.Errorf("wrk: %w\n%s", err, &outputs[i])
		} else if err := json.Unmarshal(outputs[i].Bytes(), &answers[i]); err != nil {
			errs[i] = fmt.Errorf("wrk: %w\n%s", err, &outputs[i])
		}
	}
	return answers, errors.Join(errs...)
}
