package agent

import (
	"context"
	"io"
	"net/http"
	"time"
)

const (
	// readyTimeout limits the duration of the request to nginx's health endpoint.
	readyTimeout = time.Second
	// reasonTimeout is how long the agent waits for nginx's log line about a connection that nginx has closed.
	// reasonLooks is the number of times that the agent looks for the line during this time.
	reasonTimeout = 200 * time.Millisecond
	reasonLooks   = 10
	// exhaustion is the time for which the agent relies on nginx's report that it has no connection left.
	exhaustion = 10 * time.Second
)

// Ready reports whether nginx answers on its private port, or cannot answer because clients hold all its connections.
// If a pod without free connections left its Service, the same clients would use up the connections of the next pod.
// A fully loaded pod is ready; a pod whose workers all hang is not. A pod whose nginx was started just now is not ready
// before nginx has the addresses to which it sends requests.
func (a *Agent) Ready(ctx context.Context) bool {
	if !a.Started() || !a.knowsNames() {
		return false
	}
	if a.answersHealth(ctx) {
		return true
	}
	// If nginx has no connection left, it has closed this connection, and its log line about the closed connection
	// arrives a moment later.
	for range reasonLooks {
		if a.isExhausted() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-a.clock.After(reasonTimeout / reasonLooks):
		}
	}
	return a.isExhausted()
}

func (a *Agent) isExhausted() bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.clock.Since(a.exhausted) < exhaustion
}

func (a *Agent) answersHealth(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Nginx.URL+"/healthz", nil)
	if err != nil {
		return false
	}
	response, err := a.Nginx.Client.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1024))
	return response.StatusCode == http.StatusOK
}
