package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/cachenode/cachenode-operator/test/client/report"
	"github.com/cachenode/cachenode-operator/test/content"
)

type fetcher struct {
	base   string
	host   string // the Host header; "" for the host in base
	client *http.Client
}

// newFetcher returns a client that never sends a request twice. If a server has closed a keepalive connection, Go's
// transport retries the request, unless the request has a body that cannot be read again. So each request has such a
// body: see onceBody.
func newFetcher(base, host string, keepalive bool, timeout time.Duration) *fetcher {
	return &fetcher{base: base, host: host, client: &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DisableKeepAlives: !keepalive,
			MaxIdleConns:      1,
		},
	}}
}

// onceBody is an empty body that cannot be read again. Go's transport cannot tell that the body is empty, so it does
// not retry the request.
type onceBody struct{}

func (onceBody) Read([]byte) (int, error) { return 0, io.EOF }
func (onceBody) Close() error             { return nil }

func (f *fetcher) fetch(path string) report.Result {
	begun := time.Now()
	r := report.Result{Path: path, Began: begun.UnixMilli()}
	err := f.do(path, &r)
	r.Milliseconds = float64(time.Since(begun).Microseconds()) / 1000
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

func (f *fetcher) do(path string, r *report.Result) error {
	request, err := http.NewRequest(http.MethodGet, f.base+path, onceBody{})
	if err != nil {
		return err
	}
	request.GetBody = nil
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		GotConn: func(conn httptrace.GotConnInfo) { r.Reused = conn.Reused },
	}))
	request.Host = f.host
	response, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	r.Status = response.StatusCode
	r.Cache = response.Header.Get("X-Cache")
	r.Disk = response.Header.Get("X-Cache-Disk")
	r.Pod, r.Hop = response.Header.Get("X-Cache-Node"), response.Header.Get("X-Cache-Hop")
	if strings.HasPrefix(path, "/versions/") && r.Status == http.StatusOK {
		r.Bytes = response.ContentLength
		_, err := fmt.Fscan(response.Body, &r.Version)
		return err
	}
	hash := sha256.New()
	r.Bytes, err = io.Copy(hash, response.Body)
	if err != nil {
		return fmt.Errorf("body after %d bytes: %w", r.Bytes, err)
	}
	if r.Status != http.StatusOK {
		return fmt.Errorf("status %d", r.Status)
	}
	want, err := sumOf(path)
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return fmt.Errorf("wrong bytes: SHA-256 is %s, want %s", got, want)
	}
	return nil
}

var sums sync.Map // path → SHA-256

func sumOf(path string) (string, error) {
	if sum, ok := sums.Load(path); ok {
		return sum.(string), nil
	}
	sum, err := content.Sum(path)
	if err == nil {
		sums.Store(path, sum)
	}
	return sum, err
}
