package agentapi

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// maxReport bounds what a client reads: an agent is trusted with its pod, not with the operator's memory.
const maxReport = 256 << 10

// Client reads agents' reports. It keeps no connections: between two reads nothing waits. It is safe for concurrent use.
type Client struct{ http http.Client }

// NewClient makes a client for the agents of one CacheNode.
func NewClient(config *tls.Config) *Client {
	return &Client{http: http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // nobody sends the operator elsewhere
	}}
}

// Report reads the report of the agent at an address "host:port".
func (c *Client) Report(ctx context.Context, address string) (Report, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+ReportPath, nil)
	if err != nil {
		return Report{}, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return Report{}, fmt.Errorf("the agent answers with status %d", response.StatusCode)
	}
	var report Report
	if err := json.NewDecoder(io.LimitReader(response.Body, maxReport)).Decode(&report); err != nil {
		return Report{}, fmt.Errorf("the agent's report: %w", err)
	}
	return report, nil
}
