package purge_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/await"
)

// copyOf looks for an object on both disks, and returns the answer of the disk that has the object.
func (s *site) copyOf(key string, slice int64) (found objects.Copy) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), await.Patience)
	defer cancel()
	for _, disk := range disks {
		c, err := s.purger.Copy(ctx, objects.Lookup{Key: key, Disk: disk, Slice: slice})
		must(s.t, err)
		if c.Bytes > 0 {
			found = c
		}
	}
	return found
}

// TestCopy looks for an object that nginx has stored, for an object that was never stored, and for an object that was
// purged.
func TestCopy(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n  cache: {staleIfError: 1h, staleWhileRevalidate: 0s}\n")
	begun := machine.Now().Truncate(time.Second)
	s.wants("MISS", 0, "/a/1")
	var c objects.Copy
	await.True(t, "the object is not stored", func() bool {
		c = s.copyOf(url("/a/1"), 0)
		return c.Bytes > 0
	})
	if c.Bytes < least || c.Slices+c.Length > 0 || !c.Memory.Until.IsZero() || !c.File.WhileRenewed.IsZero() ||
		c.File.Until.Before(begun.Add(10*time.Minute)) || !c.File.OnErrors.Equal(c.File.Until.Add(time.Hour)) {
		t.Errorf("%+v", c)
	}
	if c := s.copyOf(url("/a/2"), 0); c != (objects.Copy{}) {
		t.Errorf("an object that was never stored: %+v", c)
	}
	s.purge(purge.Target{URLs: []string{url("/a/1")}}, false)
	if c := s.copyOf(url("/a/1"), 0); c != (objects.Copy{}) {
		t.Errorf("an object that was purged: %+v", c)
	}
	for name, q := range map[string]objects.Lookup{"another disk": {Key: "a", Disk: "disk3"}, "no disk": {Key: "a"}} {
		if c, err := s.purger.Copy(t.Context(), q); err == nil || !strings.Contains(err.Error(), "there is no disk") {
			t.Errorf("%s: %+v, error %v", name, c, err)
		}
	}
}

// TestCopyInMemory looks for an object that also has a copy in the memory tier.
func TestCopyInMemory(t *testing.T) {
	t.Parallel()
	s := newSite(t, nginxtest.MemoryTier(""))
	s.wants("MISS", 0, "/a/1")
	var content []byte
	await.True(t, "the object is not stored", func() bool {
		for _, disk := range disks {
			if file, err := os.ReadFile(s.nginx.Root + cachekey.OnDisk(disk, url("/a/1"))); err == nil {
				content = file
			}
		}
		return content != nil
	})
	if c := s.copyOf(url("/a/1"), 0); !c.Memory.Until.IsZero() {
		t.Errorf("before it is in memory: %+v", c)
	}
	copied := s.nginx.Root + cachekey.InMemory(url("/a/1"))
	must(t, os.MkdirAll(filepath.Dir(copied), 0o700))
	must(t, os.WriteFile(copied, content, 0o600))
	if c := s.copyOf(url("/a/1"), 0); !c.Memory.Until.Equal(c.File.Until) || c.Memory.Until.IsZero() {
		t.Errorf("in memory: %+v", c)
	}
}

// TestCopyInSlices looks for an object that nginx stores in slices. A client has requested two of the slices before the
// first look, and all slices before the second.
func TestCopyInSlices(t *testing.T) {
	t.Parallel()
	const slice, size = 1 << 20, 5<<19 + 7
	body := bytes.Repeat([]byte("a"), size)
	s := prepareSite(t, "  memoryTier: {enabled: false}\n  cache: {slice: {size: 1Mi}}\n")
	s.start(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
	get := func(what string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080/large", nil)
		must(t, err)
		request.Host = host
		request.Header.Set("Range", what)
		response, err := s.client.Do(request)
		must(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		must(t, errors.Join(err, response.Body.Close()))
	}
	// nginx may store a slice after the client has received the part that it requested.
	get("bytes=1048577-")
	await.True(t, "two slices are not stored", func() bool {
		c := s.copyOf(url("/large"), slice)
		return c.Slices == 2 && c.Length == size && c.Bytes > size-slice && c.Bytes < size
	})
	get("bytes=0-0")
	await.True(t, "three slices are not stored", func() bool {
		c := s.copyOf(url("/large"), slice)
		return c.Slices == 3 && c.Length == size && c.Bytes > size
	})
}
