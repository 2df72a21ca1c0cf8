package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/test/content"
)

// TestSentAgain checks a request that Go's transport sends again because the server has closed the connection. The
// client must report an error for it.
func TestSentAgain(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 || r.Body != http.NoBody {
			t.Errorf("the request has a body of length %d", r.ContentLength)
		}
		if requests.Add(1) == 2 {
			panic(http.ErrAbortHandler) // closes the connection
		}
		size, _ := content.Size(r.URL.Path)
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.Copy(w, content.Reader(r.URL.Path, size))
	}))
	defer server.Close()
	f := newFetcher(server.URL, "", true, time.Minute)
	path := content.Path(1000, "object")
	if r := f.fetch(path); r.Error != "" || r.Bytes != 1000 {
		t.Errorf("the first request: %d bytes, error %q", r.Bytes, r.Error)
	}
	if r := f.fetch(path); !strings.Contains(r.Error, "sent again") || requests.Load() != 3 {
		t.Errorf("error %q after %d requests, want that the second was sent again", r.Error, requests.Load())
	}
}
