package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/test/await"
)

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	must(t, connection.SetDeadline(await.Deadline()))
	return connection
}

// crowded starts a server that allows three connections, and returns the server's address.
func crowded(t *testing.T, handler http.HandlerFunc) (address string) {
	t.Helper()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- ServeOn(ctx, on, handler, nil, Limits{Connections: 3, Read: await.Patience, Write: await.Patience})
	}()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
	})
	return on.Addr().String()
}

// ask sends a request and reads the response.
func ask(t *testing.T, connection net.Conn) string {
	t.Helper()
	_, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	must(t, err)
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return "no answer"
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return string(body)
}

// hasEnded waits until the server has closed a connection.
func hasEnded(t *testing.T, connection net.Conn) {
	t.Helper()
	if _, err := connection.Read(make([]byte, 1)); err == nil {
		t.Error("the server has sent something")
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // as net documents
		t.Error("the connection is still open")
	}
}

// TestCrowd checks that connections without a complete request are closed to make room for new connections, the oldest
// first.
func TestCrowd(t *testing.T) {
	t.Parallel()
	address := crowded(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	kept := dial(t, address)
	if got := ask(t, kept); got != "ok" {
		t.Fatal(got)
	}
	var idle []net.Conn
	for range 50 {
		one := dial(t, address)
		_, _ = io.WriteString(one, "GET / HTTP/1.1\r\nX: ")
		idle = append(idle, one)
	}
	last := dial(t, address)
	if got := ask(t, last); got != "ok" {
		t.Errorf("beside 50 connections without a request: %s", got)
	}
	hasEnded(t, kept) // it has waited longer than the 50 connections
	for _, one := range idle[:48] {
		hasEnded(t, one)
	}
}

// TestCrowdOfRequests checks that a connection whose request is being answered is not closed to make room for another
// connection.
func TestCrowdOfRequests(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	address := crowded(t, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "ok")
	})
	answers := make(chan string, 3)
	for range 3 {
		connection := dial(t, address)
		go func() { answers <- ask(t, connection) }()
		<-asked
	}
	hasEnded(t, dial(t, address))
	close(release)
	for range 3 {
		if got := <-answers; got != "ok" {
			t.Error(got)
		}
	}
}

// TestTimeouts checks that each server of the agent has all time-outs.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]Limits{"plain": PlainLimits, "reports": ReportLimits, "local": LocalLimits} {
		s := newServer(nil, limits)
		for what, bound := range map[string]time.Duration{
			"header": s.ReadHeaderTimeout, "read": s.ReadTimeout, "write": s.WriteTimeout, "idle": s.IdleTimeout,
		} {
			if bound <= 0 {
				t.Errorf("%s: no %s time-out", name, what)
			}
		}
		if s.MaxHeaderBytes <= 0 || limits.Connections <= 0 {
			t.Errorf("%s: headers of %d bytes, %d connections", name, s.MaxHeaderBytes, limits.Connections)
		}
	}
	if LocalLimits.Write <= listTimeout || ReportLimits.Write <= ReportLimits.Read+purgeWait {
		t.Error(fmt.Sprint("an answer may take longer than the time-out: ", LocalLimits, ReportLimits))
	}
}
