// Package agentclient is the operator's client for agents. It reads their reports, and sends them purges and the
// addresses of pods.
//
// It imports agentapi and purge. For a new request to agents, add a method here and a function to Calls in package
// agents.
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

// maxReport is the maximum size of a report that a client reads, in bytes. An agent is trusted with its pod, but must
// not be able to use up the operator's memory.
const maxReport = 256 << 10

// Client reads agents' reports, and sends purges and the addresses of pods. It reuses connections for the requests
// that send something, but opens a new connection for each read. It is safe for concurrent use.
type Client struct{ reads, sends http.Client }

// idle is the time for which an unused connection stays open for the next request that sends something.
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

// maxDone is the maximum size of an agent's answer about purges that a client reads, in bytes.
const maxDone = 4 << 20

// ErrCannotPurge is the error that [Client.Purge] returns for an agent that does not support purges.
var ErrCannotPurge = errors.New("the agent is too old to purge: delete the pod, so that it is recreated with a new one")

// Purge sends a part of the journal of purges to the agent at an address "host:port". The result says which part of the
// journal the agent has carried out.
func (c *Client) Purge(ctx context.Context, address string, update purge.Update) (done purge.Done, err error) {
	text, err := json.Marshal(update)
	if err != nil {
		return done, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+address+purge.Path, bytes.NewReader(text))
	if err != nil {
		return done, err
	}
	request.Header["Idempotency-Key"] = nil // not sent; makes net/http retry if the agent closed the connection
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
	_, _ = io.CopyN(io.Discard, response.Body, 1) // read to the end, so that the connection can be used again
	return purge.Sanitize(done), nil
}

// Tell sends the addresses of a CacheNode's pods to an agent of this CacheNode. The agent is at the address
// "host:port".
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

// Report reads the report of the agent at an address "host:port", and returns the result of [agentapi.Sanitize]. It
// returns an error for a report that is too large, or that lists more disks than a spec can have.
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
	// A disk that takes two bytes as JSON takes a hundred times as much memory after decoding. boundedDisks therefore
	// limits the number of disks.
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

// boundedDisks is a list of disks whose decoding fails if there are more than [agentapi.MaxDisks].
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
