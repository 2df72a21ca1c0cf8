package cachefile_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

// machine is the clock of nginx and of the files.
var machine clock.RealClock

// site is an nginx with one disk and an origin.
type site struct {
	nginx  *nginxtest.Nginx
	client *http.Client
	asked  atomic.Int64
}

func newSite(t *testing.T) *site {
	t.Helper()
	config := nginxtest.Render(t, `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 1Gi}]
  origin: {servers: [{host: 127.0.0.1, port: 9000}], hostHeader: www.example.com}
  cache: {staleWhileRevalidate: 0s}
  memoryTier: {enabled: false}
`)
	s := &site{nginx: nginxtest.New(t)}
	s.nginx.Configure(config.Text, "disk1")
	s.nginx.Serve("127.0.0.1:9000", http.HandlerFunc(s.origin))
	s.nginx.Start()
	s.client = s.nginx.Client()
	return s
}

// origin answers a request. The response varies by X-Device, has two headers with tags, and contains the number of the
// request in its body.
func (s *site) origin(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "X-Device")
	w.Header().Set("ETag", `"1"`)
	w.Header().Add("Surrogate-Key", "news sport")
	w.Header().Add("surrogate-key", "front")
	w.Header().Set("Cache-Control", "max-age=600")
	n := s.asked.Add(1)
	if r.Header.Get("If-None-Match") == `"1"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = fmt.Fprintf(w, "%s to %q, request %d", r.URL.Path, r.Header.Get("X-Device"), n)
}

// get fetches a path for a device, and returns X-Cache and the body.
func (s *site) get(t *testing.T, path, device string) (status, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	must(t, err)
	request.Host = "www.example.com"
	request.Header.Set("X-Device", device)
	response, err := s.client.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.Header.Get("X-Cache"), string(text)
}

// wants checks the header X-Cache of the next responses for a device.
func (s *site) wants(t *testing.T, path, device string, statuses ...string) {
	t.Helper()
	for i, want := range statuses {
		if got, body := s.get(t, path, device); got != want {
			t.Fatalf("%s for %q, response %d of %d: %s, want %s (%s)", path, device, i+1, len(statuses), got, want, body)
		}
	}
}

func key(path string) string { return "http://www.example.com" + path }

// file returns the path of the cache file for a URL path. It fails the test unless there is exactly one such file.
func (s *site) file(t *testing.T, path string) string {
	t.Helper()
	files := s.nginx.Cached(key(path), "disk1")
	if len(files) != 1 {
		t.Fatalf("%s is in %d files", path, len(files))
	}
	return files[0]
}

func TestReadOfNginx(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	before := machine.Now().Truncate(time.Second)
	s.wants(t, "/a", "phone", "MISS", "HIT")
	file, err := os.Open(s.file(t, "/a"))
	must(t, err)
	defer func() { _ = file.Close() }()
	h, err := cachefile.Read(file)
	must(t, err)
	if h.Key != key("/a") || h.Vary != "X-Device" || h.Variant == [16]byte{} {
		t.Errorf("read %+v", h)
	}
	if h.Received.Before(before) || h.Received.After(machine.Now()) || h.ValidUntil.Sub(h.Received) != 600*time.Second {
		t.Errorf("received %s, valid until %s", h.Received, h.ValidUntil)
	}
	info, err := file.Stat()
	must(t, err)
	if length, ok := h.Length(); !ok || h.Body+length != info.Size() || h.Stale != 24*time.Hour {
		t.Errorf("%d bytes (%t) from %d on, stale for %s; the file has %d", length, ok, h.Body, h.Stale, info.Size())
	}
	if got := fmt.Sprint(h.Values("surrogate-KEY"), h.Values("X-None")); got != "[news sport front] []" {
		t.Errorf("the tags are %s", got)
	}
}

func TestInvalidateWithNginx(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, tt := range map[string]struct {
		invalidate func(path string) error
		want       []string
		removed    bool
	}{
		"stamp":  {cachefile.Stamp, []string{"MISS", "HIT"}, false},
		"remove": {cachefile.Remove, []string{"MISS", "HIT"}, true},
		"expire": {
			func(path string) error { return cachefile.Expire(path, machine.Now().Add(-time.Second)) },
			[]string{"REVALIDATED", "HIT"},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.wants(t, "/"+name, "phone", "MISS", "HIT")
			path := s.file(t, "/"+name)
			asked := s.asked.Load()
			must(t, tt.invalidate(path))
			if _, err := os.Stat(path); os.IsNotExist(err) != tt.removed {
				t.Errorf("the file afterwards: %v", err)
			}
			s.wants(t, "/"+name, "phone", tt.want...)
			if got := s.asked.Load() - asked; got != 1 {
				t.Errorf("the origin was asked %d times", got)
			}
			must(t, tt.invalidate(path+"-absent"))
		})
	}
	if log := s.nginx.Log(); strings.Contains(log, "[crit]") || strings.Contains(log, "[error]") {
		t.Errorf("nginx logged %s", log)
	}
}

// TestVariantsRevive shows why all files of a key are invalidated together. If only the file of the first variant is
// removed, nginx later finds the files of the other variants again.
func TestVariantsRevive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.wants(t, "/v", "phone", "MISS", "HIT")
	first := s.file(t, "/v")
	s.wants(t, "/v", "desktop", "MISS", "HIT")
	files := s.nginx.Cached(key("/v"), "disk1")
	if len(files) != 2 {
		t.Fatalf("two variants are in %d files", len(files))
	}
	must(t, cachefile.Remove(first))
	s.wants(t, "/v", "phone", "MISS")
	s.wants(t, "/v", "desktop", "HIT") // the old response
	for _, file := range files {
		must(t, cachefile.Remove(file))
	}
	s.wants(t, "/v", "desktop", "MISS", "HIT")
	s.wants(t, "/v", "phone", "MISS", "HIT")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
