package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/cachenode/cachenode-operator/test/client/report"
)

// A slow download begins every slowEvery, and reads slowBytes each second.
const (
	slowEvery = 10 * time.Second
	slowBytes = 64 << 10
)

// downloadSlowly downloads the objects at paths, each over a connection of its own, until ctx ends. A download that
// ends earlier has broken off, unless its object was complete.
func downloadSlowly(ctx context.Context, base, host string, paths []string) report.Downloads {
	var mutex sync.Mutex
	var group sync.WaitGroup
	var sum report.Downloads
	begin := time.NewTicker(slowEvery)
	defer begin.Stop()
	for _, path := range paths {
		sum.Begun++
		group.Go(func() {
			err := readSlowly(ctx, base+path, host)
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil && ctx.Err() == nil {
				sum.Broken = append(sum.Broken, err.Error())
			}
		})
		select {
		case <-begin.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	group.Wait()
	return sum
}

// readSlowly reads the body at a URL until it or ctx ends.
func readSlowly(ctx context.Context, url, host string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Host = host
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for left := response.ContentLength; left > 0; {
		n, err := io.CopyN(io.Discard, response.Body, min(slowBytes, left))
		if err != nil {
			return err
		}
		left -= n
		select {
		case <-every.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
