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

// process is a test client that fetches until its input ends.
type process struct {
	cmd         *exec.Cmd
	stdin       io.Closer
	out, errors strings.Builder
	written     chan error
}

func begin(t *testing.T, cmd *exec.Cmd, paths []string) *process {
	t.Helper()
	p := &process{cmd: cmd, written: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = &p.out, &p.errors
	stdin, err := cmd.StdinPipe()
	must(t, err)
	p.stdin = stdin
	must(t, cmd.Start())
	t.Cleanup(func() { _ = stdin.Close() }) // for a test that fails before the end
	go func() {
		_, err := io.WriteString(stdin, strings.Join(paths, "\n")+"\n\n")
		p.written <- err
	}()
	return p
}

// endAll ends clients and returns what each has printed.
func endAll(t *testing.T, processes []*process) (printed []string) {
	t.Helper()
	for _, p := range processes {
		must(t, <-p.written)
		_ = p.stdin.Close()
	}
	for _, p := range processes {
		if err := p.cmd.Wait(); err != nil {
			t.Fatalf("%s: %v\n%s", p.cmd, err, p.errors.String())
		}
		printed = append(printed, p.out.String())
	}
	return printed
}

// lasting lets a load go on for a time, ends it and returns its results.
func lasting[T any](duration time.Duration, end func() []T) []T {
	time.Sleep(duration)
	return end()
}

// longest is the longest that a load lasts which a test that failed has not ended.
const longest = "600"

// load begins a steady load through the Service: half of it with keep-alive from one node, half without from another. What
// it returns ends the load and sums up both halves.
func (s *suite) load(t *testing.T, paths []string) (end func() []report.Summary) {
	t.Helper()
	var clients []*process
	for node, keepalive := range []bool{true, false} {
		clients = append(clients, begin(t, exec.Command("kubectl", "--namespace", namespace, "exec", "-i", s.clients[node], "--",
			"/client", "load", "-base", base, "-workers", "4", "-rate", "150", "-seconds", longest, fmt.Sprintf("-keepalive=%t", keepalive)), paths))
	}
	return func() []report.Summary {
		t.Helper()
		var summaries []report.Summary
		for _, out := range endAll(t, clients) {
			var s report.Summary
			must(t, json.Unmarshal([]byte(out), &s))
			summaries = append(summaries, s)
		}
		return summaries
	}
}

// checkLoad holds a load to not one failed request, of at least a number.
func checkLoad(t *testing.T, summaries []report.Summary, atLeast int) {
	t.Helper()
	total := 0
	for _, s := range summaries {
		total += s.Requests
		t.Logf("load: %d requests, %d failed, %v, by pod %v, p50 %.1f ms, p99 %.1f ms, longest %.0f ms",
			s.Requests, s.Failed, s.Cache, s.Pods, s.P50, s.P99, s.Max)
		if s.Failed > 0 {
			t.Errorf("%d of %d requests failed: %v", s.Failed, s.Requests, s.Errors)
		}
	}
	if total < atLeast {
		t.Errorf("%d requests, too few to show anything: want %d", total, atLeast)
	}
}

// client is the test client in the network of the pod's node, not through the API server.
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
func (p *target) get(t *testing.T, paths []string) []report.Result {
	t.Helper()
	cmd := p.client(t, "fetch", "-keepalive")
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

// load begins a steady load of random ones of the paths, straight to the pod: half of it with keep-alive, half without.
// What it returns ends the load; its results are those of both halves.
func (p *target) load(t *testing.T, paths []string, rate, workers int) (end func() []report.Result) {
	t.Helper()
	var clients []*process
	for _, keepalive := range []bool{true, false} {
		clients = append(clients, begin(t, p.client(t, "load", "-each", "-seconds", longest,
			"-rate", fmt.Sprint(rate/2), "-workers", fmt.Sprint(workers/2), fmt.Sprintf("-keepalive=%t", keepalive)), paths))
	}
	return func() []report.Result {
		t.Helper()
		var all []report.Result
		for _, out := range endAll(t, clients) {
			all = append(all, results(t, out)...)
		}
		return all
	}
}

// results reads what the test client prints, a request a line.
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
