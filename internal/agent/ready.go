package agent

import (
	"context"
	"io"
	"net/http"
	"time"
)

const (
	// readyTimeout bounds the question whether nginx answers.
	readyTimeout = time.Second
	// reasonTimeout is how long nginx's own words about a connection that it has closed are waited for.
	reasonTimeout = 200 * time.Millisecond
	// exhaustion is for how long what nginx said of its connections counts.
	exhaustion = 10 * time.Second
)

// Ready is true when nginx answers on its private port, and when it cannot because clients have taken all its connections:
// if such a pod left its Service, whoever holds them would take the next one. A pod that is at work with all that it can take
// is ready; one whose workers all hang is not.
func (a *Agent) Ready(ctx context.Context) bool {
	if !a.Started() {
		return false
	}
	if a.answersHealth(ctx) {
		return true
	}
	// Where it has no connection left, nginx has closed this one and said why, which comes a moment later.
	for deadline := time.Now().Add(reasonTimeout); time.Now().Before(deadline); time.Sleep(reasonTimeout / 10) {
		if a.isExhausted() {
			return true
		}
	}
	return a.isExhausted()
}

func (a *Agent) isExhausted() bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return time.Since(a.exhausted) < exhaustion
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
