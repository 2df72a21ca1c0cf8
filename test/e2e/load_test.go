package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/test/client/report"
)

// process is a load of the test client that lasts until a test ends it.
type process struct {
	cmd         *exec.Cmd
	out, errors strings.Builder
	first       chan struct{} // closed when the first request has ended
}

// start starts a load with its input and collects what it prints. The load has not begun yet: see begun.
func start(t *testing.T, cmd *exec.Cmd, input io.Reader) *process {
	t.Helper()
	p := &process{cmd: cmd, first: make(chan struct{})}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &p.out, p
	must(t, cmd.Start())
	return p
}

// Write collects the standard error of the load, and notes when the load says that its first request has ended.
func (p *process) Write(text []byte) (int, error) {
	before := strings.Contains(p.errors.String(), report.Begun)
	p.errors.Write(text)
	if !before && strings.Contains(p.errors.String(), report.Begun) {
		close(p.first)
	}
	return len(text), nil
}

// begun waits until the first request of the load has ended.
func (p *process) begun(t *testing.T) {
	t.Helper()
	select {
	case <-p.first:
	case <-time.After(patience * 30 * time.Second):
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // p.errors is complete then
		t.Fatalf("%s: no request has ended:\n%s", p.cmd, p.errors.String())
	}
}

// wait waits until the load has ended, and returns what it printed.
func (p *process) wait(t *testing.T) string {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", p.cmd, err, p.errors.String())
	}
	return p.out.String()
}

// lasting lets a load go on for a time, ends it, and returns its results.
func lasting[T any](duration time.Duration, end func() []T) []T {
	time.Sleep(duration)
	return end()
}

// longest is the limit of a load in seconds, for a load that a failed test does not end.
const longest = "2400"

// load begins a steady load through the Service: half of it with keep-alive from one node, half without from another
// node. It returns when both halves run. end ends the load and returns a summary of each half.
func (s *suite) load(t *testing.T, paths []string) (end func() []report.Summary) {
	t.Helper()
	var clients []*process
	for node, keepalive := range []bool{true, false} {
		cmd := exec.Command("kubectl", "--namespace", namespace, "exec", "-i", s.clients[node], "--",
			"/client", "load", "-base", base, "-workers", "4", "-rate", "150",
			"-seconds", longest, fmt.Sprintf("-keepalive=%t", keepalive))
		clients = append(clients, start(t, cmd, strings.NewReader(strings.Join(paths, "\n"))))
	}
	for _, client := range clients {
		client.begun(t)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for node := range clients {
				_, _ = tryKubectl("", "exec", s.clients[node], "--", "/client", "end")
			}
		}
	})
	return func() []report.Summary {
		t.Helper()
		// The end of the input cannot end this load: after a silent minute, kubectl's connection breaks when the input ends.
		for node := range clients {
			kubectl(t, "", "exec", s.clients[node], "--", "/client", "end")
		}
		var summaries []report.Summary
		for _, client := range clients {
			var s report.Summary
			must(t, json.Unmarshal([]byte(client.wait(t)), &s))
			summaries = append(summaries, s)
		}
		return summaries
	}
}

// checkLoad fails the test if a request of the load failed, or if there were fewer requests than atLeast.
func checkLoad(t *testing.T, summaries []report.Summary, atLeast int) {
	t.Helper()
	total := 0
	for _, s := range summaries {
		total += s.Requests
		t.Logf("load: %d requests, %d failed, %v, by pod %v, p50 %.1f ms, p99 %.1f ms, each %d s %.0f, longest %.0f ms",
			s.Requests, s.Failed, s.Cache, s.Pods, s.P50, s.P99, report.Window, s.Windows, s.Max)
		if s.Failed > 0 {
			t.Errorf("%d of %d requests failed: %v", s.Failed, s.Requests, s.Errors)
		}
	}
	if total < atLeast {
		t.Errorf("%d requests, too few to show anything: want %d", total, atLeast)
	}
}

// client returns the test client as a command in the network of the pod's node. It does not use the API server.
func (p *target) client(t *testing.T, verb string, args ...string) *exec.Cmd {
	t.Helper()
	pod := p.pod(t)
	program := os.Getenv("CACHENODE_TEST_CLIENT")
	if program == "" {
		t.Fatal("CACHENODE_TEST_CLIENT is not set: use test/e2e/run")
	}
	base := fmt.Sprintf("http://%s:8080", pod.Status.PodIP)
	return exec.Command("../cluster/cluster",
		append([]string{"fault", "run", pod.Spec.NodeName, program, verb, "-base", base, "-host", name}, args...)...)
}

// get fetches objects from the pod, one after another.
func (p *target) get(t *testing.T, paths []string, args ...string) []report.Result {
	t.Helper()
	cmd := p.client(t, "fetch", append([]string{"-keepalive"}, args...)...)
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(t, err)
	return results(t, string(out))
}

// warm fetches each object once, so that it is in the cache.
func (p *target) warm(t *testing.T, paths []string) {
	t.Helper()
	for _, r := range p.get(t, paths) {
		if r.Error != "" {
			t.Errorf("%s: %s", r.Path, r.Error)
		}
	}
}

// load begins a steady load of random paths straight to the pod: half of it with keep-alive, half without. rate is the
// requests a second of both halves. It returns when both halves run. end ends the load and returns the results of both
// halves.
func (p *target) load(t *testing.T, paths []string, rate, workers int) (end func() []report.Result) {
	t.Helper()
	end, clients := p.startLoad(t, paths, rate, workers)
	for _, client := range clients {
		client.begun(t)
	}
	return end
}

// startLoad is load for requests that may hang: it does not wait for the first to end.
func (p *target) startLoad(
	t *testing.T, paths []string, rate, workers int,
) (end func() []report.Result, clients []*process) {
	t.Helper()
	var inputs []io.Closer
	for _, keepalive := range []bool{true, false} {
		cmd := p.client(t, "load", "-each", "-seconds", longest, "-rate", fmt.Sprint(rate/2),
			"-workers", fmt.Sprint(workers/2), fmt.Sprintf("-keepalive=%t", keepalive))
		last, input := io.Pipe()
		t.Cleanup(func() { _ = input.Close() }) // if the test fails before the end
		clients = append(clients, start(t, cmd, io.MultiReader(strings.NewReader(strings.Join(paths, "\n")+"\n\n"), last)))
		inputs = append(inputs, input)
	}
	return func() []report.Result {
		t.Helper()
		for _, input := range inputs {
			_ = input.Close()
		}
		var all []report.Result
		for _, client := range clients {
			all = append(all, results(t, client.wait(t))...)
		}
		return all
	}, clients
}

// results reads what the test client prints, one request a line.
func results(t *testing.T, out string) []report.Result {
	t.Helper()
	var list []report.Result
	for scanner := bufio.NewScanner(strings.NewReader(out)); scanner.Scan(); {
		var r report.Result
		must(t, json.Unmarshal(scanner.Bytes(), &r))
		list = append(list, r)
	}
	return list
}
