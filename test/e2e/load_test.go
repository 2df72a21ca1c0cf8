package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/test/client/report"
)

// process is a load of the test client that lasts until a test ends it.
type process struct {
	cmd *exec.Cmd
	out strings.Builder
	// exited is closed when the process has exited, with the error exit.
	exited chan struct{}
	exit   error

	mutex   sync.Mutex
	partial []byte // the beginning of a line of standard error
	errors  strings.Builder
	ended   int // the number of ended requests that the load printed last
}

// start starts the process of a load and collects its output. When start returns, the load may not have sent requests
// yet.
func start(t *testing.T, cmd *exec.Cmd, input io.Reader) *process {
	t.Helper()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &p.out, p
	cmd.WaitDelay = time.Second // limits the wait for the input if the process fails
	must(t, cmd.Start())
	go func() {
		p.exit = cmd.Wait()
		close(p.exited)
	}()
	return p
}

// Write collects the standard error of the load, except the lines that report the load's progress.
func (p *process) Write(text []byte) (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.partial = append(p.partial, text...)
	for {
		end := bytes.IndexByte(p.partial, '\n') + 1
		if end == 0 {
			return len(text), nil
		}
		var ended int
		if _, err := fmt.Sscanf(string(p.partial[:end]), report.Progress, &ended); err != nil {
			p.errors.Write(p.partial[:end])
		}
		p.ended = max(p.ended, ended) // the client's workers print in any order
		p.partial = p.partial[end:]
	}
}

// said returns the number of requests that have ended, and everything else that the load has written to standard error.
func (p *process) said() (ended int, errors string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.ended, p.errors.String() + string(p.partial)
}

// reaches waits until n requests of the load have ended.
func (p *process) reaches(t *testing.T, n int) {
	t.Helper()
	within(t, time.Minute, func() string {
		exited := p.hasExited()
		ended, errors := p.said()
		if exited && ended < n {
			t.Fatalf("%s has exited after %d requests, before %d: %v\n%s", p.cmd, ended, n, p.exit, errors)
		}
		if ended < n {
			return fmt.Sprintf("%s: %d requests have ended, want %d:\n%s", p.cmd, ended, n, errors)
		}
		return ""
	})
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// wait waits until the load has ended, and returns its output.
func (p *process) wait(t *testing.T) string {
	t.Helper()
	if <-p.exited; p.exit != nil {
		_, errors := p.said()
		t.Fatalf("%s: %v\n%s", p.cmd, p.exit, errors)
	}
	return p.out.String()
}

// load is a load that one or more test clients send. The function end ends the load, and returns the results of all
// clients.
type load[T report.Summary | report.Result] struct {
	clients []*process
	end     func() []T
}

// begun waits until each client's first request has ended.
func (l load[T]) begun(t *testing.T) load[T] {
	t.Helper()
	for _, client := range l.clients {
		client.reaches(t, 1)
	}
	return l
}

// more waits until at least n more requests have ended. The requests are divided equally among the clients.
func (l load[T]) more(t *testing.T, n int) load[T] {
	t.Helper()
	var want []int
	for _, client := range l.clients {
		ended, _ := client.said()
		want = append(want, ended+report.Every+n/len(l.clients)) // Every: requests since the client's last report
	}
	for i, client := range l.clients {
		client.reaches(t, want[i])
	}
	return l
}

// longest is the maximum duration of a load in seconds. It ends loads that a failed test has left running.
const longest = "2400"

// loadRate is the number of requests per second that each half of a load sends. It is small, because the clients share
// the processors with everything else.
var loadRate = func() int {
	if isLong {
		return 150
	}
	return 60
}()

// load starts a steady load through the Service. One half of the load comes from one node and uses keep-alive. The
// other half comes from another node and does not. load returns when both halves have begun. The results contain a
// summary of each half.
func (s *suite) load(t *testing.T, paths []string) load[report.Summary] {
	t.Helper()
	return s.loadAt(t, base, "", paths)
}

// loadAt starts a steady load through an address, with a header Host unless it is "".
func (s *suite) loadAt(t *testing.T, base, host string, paths []string) load[report.Summary] {
	t.Helper()
	var clients []*process
	for node, keepalive := range []bool{true, false} {
		cmd := exec.Command("kubectl", "--namespace", namespace, "exec", "-i", s.clients[node], "--",
			"/client", "load", "-base", base, "-host", host, "-workers", "4", "-rate", fmt.Sprint(loadRate),
			"-seconds", longest, fmt.Sprintf("-keepalive=%t", keepalive))
		clients = append(clients, start(t, cmd, strings.NewReader(strings.Join(paths, "\n"))))
	}
	t.Cleanup(func() {
		if t.Failed() {
			for node := range clients {
				_, _ = tryKubectl("", "exec", s.clients[node], "--", "/client", "end")
			}
		}
	})
	end := func() []report.Summary {
		t.Helper()
		// The end of the input cannot end this load. When the input ends after a minute without data, kubectl's connection
		// breaks.
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
	return load[report.Summary]{clients, end}.begun(t)
}

// checkLoad fails the test if a request of the load failed.
func checkLoad(t *testing.T, summaries []report.Summary) {
	t.Helper()
	for _, s := range summaries {
		t.Logf("load: %d requests, %d failed, %v, by pod %v, p50 %.1f ms, p99 %.1f ms, each %d s %.0f, longest %.0f ms",
			s.Requests, s.Failed, s.Cache, s.Pods, s.P50, s.P99, report.Window, s.Windows, s.Max)
		if s.Failed > 0 {
			t.Errorf("%d of %d requests failed: %v", s.Failed, s.Requests, s.Errors)
		}
	}
}

// client returns a command that runs the test client in the network namespace of the pod's node. The command does not
// need the API server.
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

// load starts a steady load of random paths directly to the pod. Half of the load uses keep-alive, and half does not.
// rate is the number of requests per second of both halves together. load returns when both halves have begun.
func (p *target) load(t *testing.T, paths []string, rate, workers int) load[report.Result] {
	t.Helper()
	return p.startLoad(t, paths, rate, workers).begun(t)
}

// startLoad starts the same load as load, but does not wait until the first request has ended. It is for requests that
// may hang.
func (p *target) startLoad(t *testing.T, paths []string, rate, workers int) load[report.Result] {
	t.Helper()
	var clients []*process
	var inputs []io.Closer
	for _, keepalive := range []bool{true, false} {
		cmd := p.client(t, "load", "-each", "-seconds", longest, "-rate", fmt.Sprint(rate/2),
			"-workers", fmt.Sprint(workers/2), fmt.Sprintf("-keepalive=%t", keepalive))
		last, input := io.Pipe()
		t.Cleanup(func() { _ = input.Close() }) // if the test fails before it calls end
		clients = append(clients, start(t, cmd, io.MultiReader(strings.NewReader(strings.Join(paths, "\n")+"\n\n"), last)))
		inputs = append(inputs, input)
	}
	end := func() []report.Result {
		t.Helper()
		for _, input := range inputs {
			_ = input.Close()
		}
		var all []report.Result
		for _, client := range clients {
			all = append(all, results(t, client.wait(t))...)
		}
		return all
	}
	return load[report.Result]{clients, end}
}

// results parses the output of the test client, which contains one line for each request.
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
