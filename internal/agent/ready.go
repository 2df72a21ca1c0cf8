package agent

import (
	"context"
	"io"
	"net/http"
	"time"
)

const (
	// readyTimeout bounds the request to nginx's health endpoint.
	readyTimeout = time.Second
	// reasonTimeout is how long to wait for nginx's log line about a connection that it has closed, and reasonLooks how
	// often to look for it.
	reasonTimeout = 200 * time.Millisecond
	reasonLooks   = 10
	// exhaustion is how long a report that nginx has no connection left counts.
	exhaustion = 10 * time.Second
)

// Ready reports whether nginx answers on its private port, or cannot answer because clients hold all its connections.
// If such a pod left its Service, those clients would go on to exhaust the next one. A fully loaded pod is ready; a pod
// whose workers all hang is not.
func (a *Agent) Ready(ctx context.Context) bool {
	if !a.Started() {
		return false
	}
	if a.answersHealth(ctx) {
		return true
	}
	// If nginx has no connection left, it has closed this one, and its log line about that arrives a moment later.
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
