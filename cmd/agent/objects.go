package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/layout"
)

// maxProblem is the maximum number of bytes that ask reads of the agent's error message.
const maxProblem = 4 << 10

// ask passes a query to the agent of this pod, and copies the agent's answer to answer.
func ask(path string, query io.Reader, answer io.Writer) error {
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", layout.AgentSocket)
		},
	}}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://agent"+path, query)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, maxProblem))
		return errors.Join(errors.New(strings.TrimSpace(string(text))), err)
	}
	if _, err := io.Copy(answer, response.Body); err != nil {
		return fmt.Errorf("the agent's answer: %w", err)
	}
	return nil
}
