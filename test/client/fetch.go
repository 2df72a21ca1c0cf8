package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
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

// newFetcher returns a client that reports an error if a request was sent twice; see do. With an https base, the client
// asks for the host in its TLS handshake, and accepts any certificate.
func newFetcher(base, host string, keepalive bool, timeout time.Duration) *fetcher {
	return &fetcher{base: base, host: host, client: &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DisableKeepAlives: !keepalive,
			MaxIdleConns:      1,
			TLSClientConfig: &tls.Config{
				ServerName: host, InsecureSkipVerify: true, // the tests make their own certificates
			},
		},
	}}
}

// fetchUntil fetches a path until the status is 200, at most for the given time.
func (f *fetcher) fetchUntil(path string, most time.Duration) report.Result {
	end := time.Now().Add(most)
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		if r := f.fetch(path); r.Status == http.StatusOK || time.Now().After(end) {
			return r
		}
		<-every.C
	}
}

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

// do fetches path, and checks the response. If a server has closed a keepalive connection, Go's transport sends the
// request again. That would hide a failure from the tests, so do returns an error if a request used two connections.
// The transport does not repeat a request with a body, but a body is no solution here. Under load, the transport cannot
// always tell whether the body is empty, and then sends it in chunks.
func (f *fetcher) do(path string, r *report.Result) error {
	connections := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GotConn: func(conn httptrace.GotConnInfo) { connections, r.Reused = connections+1, conn.Reused },
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.base+path, http.NoBody)
	if err != nil {
		return err
	}
	request.Host = f.host
	response, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if connections > 1 {
		return fmt.Errorf("sent again, as the connection ended: %w", io.EOF)
	}
	r.Status = response.StatusCode
	if response.TLS != nil {
		r.Certificate = response.TLS.PeerCertificates[0].Subject.CommonName
	}
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
