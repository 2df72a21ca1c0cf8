package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/agent/server"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/await"
)

// asAgent is the environment variable that is set in the process that runs the agent for TestListeners.
const asAgent = "CACHENODE_TEST_LISTENERS"

// TestListeners runs the agent in a network namespace of its own, and lists all sockets on which the agent listens. The
// test therefore notices a new listener without the limits of package server. Each listener has a limit on its
// connections.
func TestListeners(t *testing.T) {
	if os.Getenv(asAgent) != "" {
		listen(t)
		return
	}
	t.Parallel()
	command := exec.Command("unshare", "--net", os.Args[0], "-test.run=^TestListeners$", "-test.v")
	command.Env = append(os.Environ(), asAgent+"=1")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	var got []string
	for line := range strings.Lines(string(output)) {
		if _, socket, ok := strings.Cut(line, "listens on "); ok {
			got = append(got, strings.TrimSpace(socket))
		}
	}
	slices.Sort(got)
	_, port, err := net.SplitHostPort(layout.ResolverAddress)
	if err != nil {
		t.Fatal(err)
	}
	// For the limits, see server.PlainLimits, ReportLimits and LocalLimits, and nameConnections. UDP has no connections.
	want := []string{
		"tcp port " + port,
		"udp " + layout.ResolverAddress,
		fmt.Sprintf("tcp port %d", layout.MetricsPort),
		fmt.Sprintf("tcp port %d", layout.AgentPort),
		"udp " + layout.LogAddress,
		"unix " + layout.AgentSocket,
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the agent listens on (-want +got)\n%s\n%s", diff, output)
	}
}

// listen runs an agent as cmd/agent does, and logs the sockets on which the agent listens.
func listen(t *testing.T) {
	if output, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	root := t.TempDir()
	if err := os.MkdirAll(root+layout.RunDir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := New(Paths{Config: t.TempDir(), PodInfo: t.TempDir(), Root: root},
		&reload.Nginx{Program: []string{"true"}, Root: root, Client: LocalClient(), URL: "http://127.0.0.1:1"},
		slog.New(slog.NewTextHandler(io.Discard, nil)), "test", clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- a.Serve(ctx, Addresses{
			Plain: fmt.Sprintf(":%d", layout.MetricsPort), Reports: fmt.Sprintf(":%d", layout.AgentPort),
		}, server.TLS(t.TempDir()))
	}()
	for _, port := range []int{layout.MetricsPort, layout.AgentPort} {
		awaitPort(t, port)
	}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		for _, fields := range socketsOf(t, table) {
			const listening, unconnected = "0A", "07"
			address, port := addressOf(t, fields[1])
			switch {
			case strings.HasPrefix(table, "tcp") && fields[3] == listening:
				t.Logf("listens on tcp port %d", port)
			case strings.HasPrefix(table, "udp") && fields[3] == unconnected:
				t.Logf("listens on udp %s:%d", address, port)
			}
		}
	}
	for _, fields := range socketsOf(t, "unix") {
		const accepts = "00010000"
		if fields[3] == accepts && len(fields) > 7 {
			t.Logf("listens on unix %s", strings.TrimPrefix(fields[7], filepath.Clean(root)))
		}
	}
	holdsOff(t, "tcp", fmt.Sprintf("127.0.0.1:%d", layout.MetricsPort), server.PlainLimits)
	holdsOff(t, "tcp", fmt.Sprintf("127.0.0.1:%d", layout.AgentPort), server.ReportLimits)
	holdsOff(t, "unix", root+layout.AgentSocket, server.LocalLimits)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// holdsOff opens more connections than a listener allows. It checks that the listener answers the newest connection and
// has closed the oldest one.
func holdsOff(t *testing.T, network, address string, limits server.Limits) {
	t.Helper()
	var connections []net.Conn
	for range limits.Connections + 8 { // the connections of awaitPort may still count
		connection, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connection.Close() }()
		connections = append(connections, connection)
	}
	newest := connections[len(connections)-1]
	if err := newest.SetDeadline(await.Deadline()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(newest, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := newest.Read(make([]byte, 1)); err != nil {
		t.Errorf("%s: the newest of %d connections gets no answer: %v", address, len(connections), err)
	}
	if isOpen(t, connections[0]) {
		t.Errorf("%s: the oldest of %d connections is open", address, len(connections))
	}
}

// isOpen reports whether the other end still keeps a connection open. It does not wait.
func isOpen(t *testing.T, connection net.Conn) (open bool) {
	t.Helper()
	raw, err := connection.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		open = errors.Is(err, unix.EAGAIN)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

func awaitPort(t *testing.T, port int) {
	t.Helper()
	await.Until(t, func() string {
		connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err.Error()
		}
		_ = connection.Close()
		return ""
	})
}

// socketsOf returns the lines of a table of sockets in /proc/self/net, without the heading.
func socketsOf(t *testing.T, table string) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/net/" + table)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.Fields(line))
	}
	return lines[1:]
}

// addressOf parses an address and a port in hexadecimal. It returns an IPv6 address unchanged.
func addressOf(t *testing.T, text string) (address string, port int64) {
	t.Helper()
	bytes, number, _ := strings.Cut(text, ":")
	port, err := strconv.ParseInt(number, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	value, err := strconv.ParseUint(bytes, 16, 32)
	if err != nil {
		return bytes, port
	}
	return net.IPv4(byte(value), byte(value>>8), byte(value>>16), byte(value>>24)).String(), port
}
