// Package agentclient reads the reports of agents for the operator, and sends them purges and the addresses of pods.
//
// It imports agentapi and purge. A new request to agents is a method here, and a call of package agents.
package agentclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// maxReport is how many bytes a client reads. An agent is trusted with its pod, not with the operator's memory.
const maxReport = 256 << 10

// Client reads agents' reports, and sends purges and the addresses of pods. It keeps connections open between what it
// sends, but not between reads. It is safe for concurrent use.
type Client struct{ reads, sends http.Client }

// idle is how long a connection stays open for what is sent next.
const idle = 30 * time.Second

// New returns a client for the agents of one CacheNode. It follows no redirects.
func New(config *tls.Config) *Client {
	with := func(transport *http.Transport) http.Client {
		return http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
	}
	return &Client{
		reads: with(&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}),
		sends: with(&http.Transport{
			TLSClientConfig: config, IdleConnTimeout: idle, MaxIdleConns: 1000, MaxIdleConnsPerHost: 1,
		}),
	}
}

// maxDone is how many bytes of an answer about purges a client reads.
const maxDone = 4 << 20

// ErrCannotPurge is the error of [Client.Purge] for an agent that does not know purges.
var ErrCannotPurge = errors.New("the agent is too old to purge: delete the pod, so that it is recreated with a new one")

// Purge sends a part of the journal to the agent at an address "host:port", and returns what the agent has done.
func (c *Client) Purge(ctx context.Context, address string, update purge.Update) (done purge.Done, err error) {
	text, err := json.Marshal(update)
	if err != nil {
		return done, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+address+purge.Path, bytes.NewReader(text))
	if err != nil {
		return done, err
	}
	request.Header["Idempotency-Key"] = nil // is not sent, and allows another try if the agent has closed the connection
	response, err := c.sends.Do(request)
	if err != nil {
		return done, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return done, ErrCannotPurge
	default:
		return done, fmt.Errorf("the agent answers with status %d", response.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxDone)).Decode(&done); err != nil {
		return done, fmt.Errorf("the agent's answer: %w", err)
	}
	_, _ = io.CopyN(io.Discard, response.Body, 1) // up to its end, so that the connection can be used again
	return purge.Sanitize(done), nil
}

// Tell tells the agent at an address "host:port" where the pods of its CacheNode are.
func (c *Client) Tell(ctx context.Context, address string, addresses agentapi.Addresses) error {
	text, err := json.Marshal(addresses)
	if err != nil {
		return err
	}
	url := "https://" + address + agentapi.AddressesPath
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header["Idempotency-Key"] = nil // see Purge
	response, err := c.sends.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the agent answers with status %d", response.StatusCode)
	}
	return nil
}

// Report reads the report of the agent at an address "host:port", as [agentapi.Sanitize] returns it. A report that is
// too large, or that has more disks than a spec can have, is an error.
func (c *Client) Report(ctx context.Context, address string) (agentapi.Report, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+agentapi.ReportPath, nil)
	if err != nil {
		return agentapi.Report{}, err
	}
	response, err := c.reads.Do(request)
	if err != nil {
		return agentapi.Report{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return agentapi.Report{}, fmt.Errorf("the agent answers with status %d", response.StatusCode)
	}
	// A disk of two bytes takes a hundred times as much memory when decoded, so boundedDisks limits their number.
	var answer struct {
		agentapi.Report
		Disks boundedDisks `json:"disks"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxReport)).Decode(&answer); err != nil {
		return agentapi.Report{}, fmt.Errorf("the agent's report: %w", err)
	}
	answer.Report.Disks = answer.Disks
	return agentapi.Sanitize(answer.Report, time.Now()), nil
}

// boundedDisks is a list that does not decode with more than [agentapi.MaxDisks] disks.
type boundedDisks []agentapi.DiskReport

// UnmarshalJSON implements [json.Unmarshaler].
func (b *boundedDisks) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		if len(*b) == agentapi.MaxDisks {
			return fmt.Errorf("more than %d disks", agentapi.MaxDisks)
		}
		var d agentapi.DiskReport
		if err := decoder.Decode(&d); err != nil {
			return err
		}
		*b = append(*b, d)
	}
	return nil
}
