package cache_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/nginxlog"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
)

const mebi = 1 << 20

// ranged is an origin with one object. Its fields define how it answers requests for ranges.
type ranged struct {
	mu          sync.Mutex
	body        []byte
	etag        string
	modified    time.Time
	withoutPart bool   // if true, the origin ignores Range
	status      int    // the origin answers with this status instead of the object
	accel       string // X-Accel-Redirect
	headers     map[string]string
	asked       []string
	before      func(r *http.Request)
}

func (o *ranged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.before != nil {
		o.before(r)
	}
	o.asked = append(o.asked, r.Header.Get("Range"))
	w.Header().Set("Cache-Control", "max-age=3600")
	w.Header().Set("Expires", "Thu, 01 Jan 2037 00:00:00 GMT")
	w.Header().Set("Content-Type", "text/plain")
	if o.etag != "" {
		w.Header().Set("ETag", o.etag)
	}
	for name, value := range o.headers {
		w.Header().Set(name, value)
	}
	if o.accel != "" && r.URL.Path != o.accel {
		w.Header().Set("X-Accel-Redirect", o.accel)
	}
	if o.status != 0 {
		w.Header().Set("Location", "/other")
		w.WriteHeader(o.status)
		_, _ = io.WriteString(w, "no object")
		return
	}
	if o.withoutPart {
		r.Header.Del("Range")
	}
	if strings.HasSuffix(o.etag, "no length") {
		w = withoutLength{w}
		w.Header().Set("ETag", `"a"`)
	}
	if len(o.body) == 0 && r.Header.Get("Range") != "" {
		w.Header().Set("Content-Range", "bytes */0")
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	http.ServeContent(w, r, "", o.modified, bytes.NewReader(o.body))
}

// withoutLength is a ResponseWriter that leaves the length of the object out of Content-Range.
type withoutLength struct{ http.ResponseWriter }

func (w withoutLength) WriteHeader(status int) {
	if before, _, ok := strings.Cut(w.Header().Get("Content-Range"), "/"); ok {
		w.Header().Set("Content-Range", before+"/*")
	}
	w.ResponseWriter.WriteHeader(status)
}

// requests returns the ranges of all requests since the last call, in sorted order.
func (o *ranged) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := o.asked
	o.asked = nil
	slices.Sort(asked)
	return asked
}

// content returns a text in which each position can be recognized.
func content(size int, mark string) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		b.WriteString(mark)
		b.WriteByte(' ')
		b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(b.Len()), 10))
		b.WriteByte(',')
	}
	return b.Bytes()[:size]
}

func inSlices(spec *v1alpha1.CacheNodeSpec) {
	spec.Cache.Slice = &v1alpha1.Slice{Size: resource.MustParse("1Mi")}
}

func slice(n int) string { return fmt.Sprintf("bytes=%d-%d", n*mebi, (n+1)*mebi-1) }

// TestSlices checks which ranges the origin gets, and which response a client gets, with several kinds of origins.
func TestSlices(t *testing.T) {
	t.Parallel()
	all := []string{slice(0), slice(1), slice(2), slice(3)}
	const part = "bytes=2097152-2097160"
	for name, tt := range map[string]struct {
		size        int
		etag        string
		withoutPart bool
		request     string
		// first contains the ranges that nginx requests from the origin for the client's first request. second contains those
		// for an identical second request.
		first, second []string
	}{
		"a range in the middle":  {4*mebi - 7, `"a"`, false, "bytes=2097152-2097160", []string{slice(2)}, nil},
		"a range of three":       {4*mebi - 7, `"a"`, false, "bytes=1048570-2097160", all[:3], nil},
		"the end":                {4*mebi - 7, `"a"`, false, "bytes=-5", []string{slice(0), slice(3)}, nil},
		"all of it":              {4*mebi - 7, `"a"`, false, "", all, nil},
		"no more than one slice": {100, `"a"`, false, "", all[:1], nil},
		"exactly one slice":      {mebi, `"a"`, false, "", all[:1], nil},
		"empty":                  {0, `"a"`, false, "", []string{"", slice(0)}, []string{slice(0)}},
		"behind the end":         {mebi, `"a"`, false, "bytes=2097152-", []string{slice(2)}, nil},

		"no length":                 {4 * mebi, `"a" no length`, false, part, []string{"", slice(2)}, []string{slice(2)}},
		"a weak ETag":               {4 * mebi, `W/"a"`, false, "", []string{"", slice(0)}, []string{slice(0)}},
		"no ETag":                   {4 * mebi, "", false, "", []string{"", slice(0)}, []string{slice(0)}},
		"no ETag, a range":          {4 * mebi, "", false, part, []string{"", slice(2)}, []string{slice(2)}},
		"an origin without ranges":  {4 * mebi, `"a"`, true, "", []string{slice(0)}, nil},
		"a range of such an origin": {4 * mebi, `"a"`, true, part, []string{"", slice(2)}, []string{slice(2)}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &ranged{body: content(tt.size, "a"), etag: tt.etag, withoutPart: tt.withoutPart}
			client := startWith(t, o.ServeHTTP, inSlices)
			var headers []string
			wanted, status := o.body, http.StatusOK
			if tt.request != "" {
				headers = []string{"Range: " + tt.request}
				expected := &answer{}
				request, _ := http.NewRequest(http.MethodGet, "/", nil)
				request.Header.Set("Range", tt.request)
				http.ServeContent(expected, request, "", time.Time{}, bytes.NewReader(o.body))
				wanted, status = expected.Bytes(), expected.status
			}
			for i, asked := range [][]string{tt.first, tt.second} {
				r, body := ask(t, client, http.MethodGet, example, headers...)
				if r.StatusCode != status || (status < 400 && body != string(wanted)) {
					t.Fatalf("request %d: status %d, %d bytes; want %d and %d", i, r.StatusCode, len(body), status, len(wanted))
				}
				if diff := cmp.Diff(asked, o.requests()); diff != "" {
					t.Errorf("request %d, asked of the origin (-want +got)\n%s", i, diff)
				}
				if status == http.StatusOK && len(r.Header.Values("Expires")) != 1 {
					t.Errorf("Expires %q", r.Header.Values("Expires"))
				}
				if r, body := ask(t, client, http.MethodHead, example); r.ContentLength != int64(tt.size) || body != "" {
					t.Errorf("HEAD: %d bytes, want %d", r.ContentLength, tt.size)
				}
				o.requests()
			}
		})
	}
}

// answer records a response.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}
func (a *answer) WriteHeader(status int) { a.status = status }

// TestSlicesOfOneObject checks that no response mixes slices from before and after a change of the object. The client
// gets either the whole new object, or the beginning of one of the two objects and then an error.
func TestSlicesOfOneObject(t *testing.T) {
	t.Parallel()
	old, changed := content(4*mebi, "old"), content(4*mebi+9, "new")
	for name, change := range map[string]func(o *ranged){
		"another ETag":      func(o *ranged) { o.body, o.etag = changed, `"new"` },
		"a weak ETag":       func(o *ranged) { o.body, o.etag = changed, `W/"new"` },
		"no ETag":           func(o *ranged) { o.body, o.etag = changed, "" },
		"no ranges":         func(o *ranged) { o.body, o.withoutPart = changed, true },
		"shorter":           func(o *ranged) { o.body, o.etag = changed[:mebi], `"new"` },
		"empty":             func(o *ranged) { o.body, o.etag = nil, `"new"` },
		"an error":          func(o *ranged) { o.before = func(*http.Request) { panic(http.ErrAbortHandler) } },
		"a redirect":        func(o *ranged) { o.status = http.StatusFound },
		"an error's status": func(o *ranged) { o.status = http.StatusServiceUnavailable },
		"a redirect inside": func(o *ranged) { o.accel = "/other" },
	} {
		t.Run(name, func(t *testing.T) {
			o := &ranged{body: old, etag: `"old"`}
			o.before = func(r *http.Request) {
				if r.Header.Get("Range") == slice(2) {
					o.before = nil
					change(o)
				}
			}
			client := startWith(t, o.ServeHTTP, inSlices)
			for i := range 3 {
				body, err := read(client, example)
				if err == nil && bytes.Equal(body, o.body) {
					continue // the whole body is of the new object
				}
				if err == nil {
					t.Errorf("request %d: %d bytes without an error", i, len(body))
				}
				if !bytes.HasPrefix(old, body) && !bytes.HasPrefix(changed, body) {
					t.Errorf("request %d: %d bytes are of neither object", i, len(body))
				}
			}
		})
	}
}

// read returns the body of a response up to the point at which the response ends or fails.
func read(client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Host = "www.example.com"
	r, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("status %d", r.StatusCode))
	}
	return body, errors.Join(err, r.Body.Close())
}

// TestSlicesAreOnOneDisk checks that all slices of an object are on the disk of its key, at the paths that package
// cachekey computes. It also checks that no request fails when the disk fails.
func TestSlicesAreOnOneDisk(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	in := decode(t, []byte(threeDisks))
	inSlices(&in.Spec)
	config, err := cache.Render(in)
	must(t, err)
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	o := &ranged{body: content(3*mebi, "a"), etag: `"a"`}
	n.Serve("127.0.0.1:9000", o)
	n.Start()
	client := n.Client()
	const key = "http://www.example.com/object"
	disk := config.Plan.Tree().Owner([]byte(key))
	from := func() string {
		r, body := ask(t, client, http.MethodGet, example)
		if body != string(o.body) {
			t.Errorf("%d bytes", len(body))
		}
		return r.Header.Get("X-Cache") + " " + r.Header.Get("X-Cache-Disk")
	}
	if got := from(); got != "MISS "+disk {
		t.Fatalf("from %s, want a MISS of %s", got, disk)
	}
	for i := range int64(3) {
		sliceKey := cachekey.Key{Slice: cachekey.NthSlice(mebi, i)}.String() + key
		want := []string{n.Root + cachekey.OnDisk(disk, sliceKey)}
		if diff := cmp.Diff(want, n.Cached(sliceKey, "disk1", "disk2", "disk3")); diff != "" {
			t.Errorf("slice %d (-want +got)\n%s", i, diff)
		}
	}
	if got := from(); got != "HIT "+disk {
		t.Errorf("from %s, want a HIT of %s", got, disk)
	}
	// The disk's folder is removed, which looks like a failure of the disk.
	must(t, os.RemoveAll(n.Root+layout.CacheDir(disk)))
	for _, want := range []string{"MISS disk", "HIT disk"} {
		if got := from(); !strings.HasPrefix(got, want) || strings.HasSuffix(got, disk) {
			t.Errorf("from %s, want a %s other than %s", got, want, disk)
		}
	}
}

// TestSlicesInMemory checks that the memory tier makes a whole object from the slices of a hot object.
func TestSlicesInMemory(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	in := decode(t, []byte(strings.Replace(threeDisks, "spec:\n", "spec:\n"+nginxtest.MemoryTier("minUses: 1"), 1)))
	inSlices(&in.Spec)
	config, err := cache.Render(in)
	must(t, err)
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	n.Mkdir(layout.MemoryTierDir)
	o := &ranged{body: content(3*mebi+5, "a"), etag: `"a"`}
	n.Serve("127.0.0.1:9000", o)
	n.Start()
	client := n.Client()
	becomes(t, "HIT memory", func() string {
		r, body := ask(t, client, http.MethodGet, example)
		if body != string(o.body) {
			t.Fatalf("from %s, %d bytes", place(r), len(body))
		}
		return place(r)
	})
	r, body := ask(t, client, http.MethodGet, example, "Range: bytes=2097152-2097160")
	if place(r) != "HIT memory" || body != string(o.body[2097152:2097161]) {
		t.Errorf("a range: from %s, %q", place(r), body)
	}
	if diff := cmp.Diff([]string{slice(0), slice(1), slice(2), slice(3)}, o.requests()); diff != "" {
		t.Errorf("asked of the origin (-want +got)\n%s", diff)
	}
}

// TestSlicesAreReported checks that nginx reports each fetched slice to the agent with the disk of its object, and each
// response only once.
func TestSlicesAreReported(t *testing.T) {
	t.Parallel()
	o := &ranged{body: content(3*mebi, "a"), etag: `"a"`}
	n := start(t, o.ServeHTTP, inSlices, func(spec *v1alpha1.CacheNodeSpec) {
		spec.Monitoring.RequestSampling = new(int32(100))
	})
	client := n.Client()
	r, _ := ask(t, client, http.MethodGet, example)
	ask(t, client, http.MethodGet, example)
	want := map[string]int{"slice": 3, "cached": 2}
	becomes(t, fmt.Sprint(want), func() string {
		got := map[string]int{}
		for _, line := range n.Reports() {
			tag, text, _ := nginxlog.Split(line)
			if report, ok := nginxlog.ParseRequest(tag, text); ok && report.Disk == r.Header.Get("X-Cache-Disk") {
				got[tag]++
			}
		}
		return fmt.Sprint(got)
	})
}

// TestSlicedRequestsOfOtherKinds checks requests whose responses are not stored. nginx does not fetch them in slices,
// and the origin gets the client's own range.
func TestSlicedRequestsOfOtherKinds(t *testing.T) {
	t.Parallel()
	o := &ranged{body: content(3*mebi, "a"), etag: `"a"`}
	client := startWith(t, o.ServeHTTP, inSlices)
	const part = "Range: bytes=5-9"
	for name, tt := range map[string]struct {
		method  string
		headers []string
		want    string
		asked   string
	}{
		"credentials": {http.MethodGet, []string{"Authorization: Basic eDp5"}, string(o.body), ""},
		"credentials and a range": {
			http.MethodGet, []string{"Authorization: Basic eDp5", part}, string(o.body[5:10]), "bytes=5-9",
		},
		"another method": {http.MethodPut, nil, string(o.body), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, body := ask(t, client, tt.method, example, tt.headers...)
			if diff := cmp.Diff([]string{tt.asked}, o.requests()); diff != "" {
				t.Errorf("the origin is asked for (-want +got):\n%s", diff)
			}
			if body != tt.want {
				t.Errorf("%d bytes, want %d", len(body), len(tt.want))
			}
		})
	}
}

// TestSlicesAndGzip checks a client that accepts compression. It gets the whole object compressed, and a range
// uncompressed.
func TestSlicesAndGzip(t *testing.T) {
	t.Parallel()
	o := &ranged{body: content(3*mebi+5, "a"), etag: `"a"`}
	for name, changes := range map[string][]func(*v1alpha1.CacheNodeSpec){
		"disks alone": {inSlices}, "memory tier": {inSlices, inMemory},
	} {
		t.Run(name, func(t *testing.T) {
			client := startWith(t, o.ServeHTTP,
				append(changes, func(spec *v1alpha1.CacheNodeSpec) {
					spec.Listen.Gzip = v1alpha1.Gzip{Enabled: true, Types: []v1alpha1.MediaType{"text/plain"}}
				})...)
			where := "HIT " + map[string]string{"disks alone": "disk", "memory tier": "memory"}[name]
			becomes(t, where, func() string {
				r, body := ask(t, client, http.MethodGet, example, "Accept-Encoding: gzip")
				plain, err := gzip.NewReader(strings.NewReader(body))
				must(t, err)
				whole, err := io.ReadAll(plain)
				must(t, err)
				if r.Header.Get("Content-Encoding") != "gzip" || !bytes.Equal(whole, o.body) {
					t.Fatalf("from %s, %d bytes, %q", place(r), len(whole), r.Header.Get("Content-Encoding"))
				}
				return place(r)
			})
			becomes(t, where, func() string {
				r, body := ask(t, client, http.MethodGet, example, "Accept-Encoding: gzip", "Range: bytes=1500000-1500009")
				if r.StatusCode != http.StatusPartialContent || body != string(o.body[1500000:1500010]) ||
					r.Header.Get("Content-Encoding") != "" {
					t.Errorf("a range from %s: status %d, %d bytes", place(r), r.StatusCode, len(body))
				}
				return place(r)
			})
		})
	}
}

// TestUnslicedObjects checks an object that cannot be fetched in slices. The memory tier copies it, and nginx serves
// the copy on its disk while the origin fails.
func TestUnslicedObjects(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*http.Request){
		"closes the connection": func(*http.Request) { panic(http.ErrAbortHandler) }, "": nil,
	} {
		t.Run(name, func(t *testing.T) {
			o := &ranged{body: content(3*mebi+5, "a")}
			changes := []func(*v1alpha1.CacheNodeSpec){inSlices}
			if fail == nil {
				changes = append(changes, inMemory)
			}
			client := startWith(t, o.ServeHTTP, changes...)
			if fail == nil {
				becomes(t, "HIT memory", func() string {
					r, body := ask(t, client, http.MethodGet, example)
					if body != string(o.body) {
						t.Fatalf("from %s, %d bytes", place(r), len(body))
					}
					return place(r)
				})
				return
			}
			ask(t, client, http.MethodGet, example)
			o.mu.Lock()
			o.before = fail
			o.mu.Unlock()
			for _, header := range []string{"A: b", "Range: bytes=2097152-2097160"} {
				r, body := ask(t, client, http.MethodGet, example, header)
				if place(r) != "HIT disk" || !strings.Contains(string(o.body), body) {
					t.Errorf("%s: status %d, %s, %d bytes", header, r.StatusCode, place(r), len(body))
				}
			}
		})
	}
}

// TestHeadersOfUnslicedObjects checks that the redirect to the whole object leaves no header of the gateway in the
// response. The changes of headers in the spec must still apply.
func TestHeadersOfUnslicedObjects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		origin  map[string]string
		changes func(*v1alpha1.CacheNodeSpec)
		want    map[string][]string
	}{
		"the origin's": {
			map[string]string{"Cache-Control": "max-age=0", "CDN-Cache-Control": "max-age=60"},
			nil,
			map[string][]string{"Cache-Control": {"max-age=0"}, "Expires": {"Thu, 01 Jan 2037 00:00:00 GMT"}},
		},
		"the spec's": {
			map[string]string{"Content-Disposition": "attachment"},
			func(spec *v1alpha1.CacheNodeSpec) {
				spec.Headers.Response = v1alpha1.HeaderChanges{
					Set:    []v1alpha1.Header{{Name: "Cache-Control", Value: "no-cache"}, {Name: "Expires", Value: "0"}},
					Remove: []v1alpha1.HeaderName{"Content-Disposition"},
				}
			},
			map[string][]string{"Cache-Control": {"no-cache"}, "Expires": {"0"}},
		},
		"with a name": {
			map[string]string{"Content-Disposition": "attachment"},
			nil,
			map[string][]string{
				"Cache-Control": {"max-age=3600"}, "Expires": {"Thu, 01 Jan 2037 00:00:00 GMT"},
				"Content-Disposition": {"attachment"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &ranged{body: content(3*mebi, "a"), headers: tt.origin}
			changes := []func(*v1alpha1.CacheNodeSpec){inSlices}
			if tt.changes != nil {
				changes = append(changes, tt.changes)
			}
			client := startWith(t, o.ServeHTTP, changes...)
			for _, want := range []string{"MISS", "HIT", "HIT of a stored one, while the origin fails"} {
				if strings.Contains(want, "fails") {
					o.mu.Lock()
					o.status, o.headers = http.StatusServiceUnavailable, map[string]string{"Cache-Control": "no-store"}
					o.mu.Unlock()
				}
				r, body := ask(t, client, http.MethodGet, example)
				got := map[string][]string{}
				for _, header := range []string{"Cache-Control", "Expires", "Content-Disposition"} {
					if values := r.Header.Values(header); values != nil {
						got[header] = values
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" || !strings.HasPrefix(want, r.Header.Get("X-Cache")) ||
					body != string(o.body) {
					t.Errorf("%s: X-Cache %s, %d bytes (-want +got)\n%s", want, r.Header.Get("X-Cache"), len(body), diff)
				}
			}
		})
	}
}

// TestFailingOriginIsNotAskedForAll checks that nginx does not fetch a large object whole because the origin answered
// with an error.
func TestFailingOriginIsNotAskedForAll(t *testing.T) {
	t.Parallel()
	o := &ranged{body: content(3*mebi, "a"), etag: `"a"`, status: http.StatusServiceUnavailable}
	client := startWith(t, o.ServeHTTP, inSlices)
	r, body := ask(t, client, http.MethodGet, example, "Range: bytes=5-9")
	if r.StatusCode != http.StatusServiceUnavailable || body != "no object" {
		t.Errorf("status %d, %q", r.StatusCode, body)
	}
	if diff := cmp.Diff([]string{slice(0), "bytes=5-9"}, o.requests()); diff != "" {
		t.Errorf("asked of the origin (-want +got)\n%s", diff)
	}
}

// TestConditionsOfSlices checks that a client's conditions do not reach the origin with the request for a slice,
// because they are for the whole object. The cache's own conditions must reach the origin.
func TestConditionsOfSlices(t *testing.T) {
	t.Parallel()
	o := &ranged{body: content(3*mebi, "a"), etag: `"a"`, headers: map[string]string{"Cache-Control": "max-age=60"}}
	var conditions []string
	o.before = func(r *http.Request) {
		for _, name := range []string{"If-Range", "If-Match", "If-Unmodified-Since", "If-None-Match", "If-Modified-Since"} {
			if value := r.Header.Get(name); value != "" {
				conditions = append(conditions, name+": "+value)
			}
		}
	}
	n := start(t, o.ServeHTTP, inSlices, func(spec *v1alpha1.CacheNodeSpec) {
		spec.Cache.MinUses, spec.Cache.BackgroundUpdate = new(int32(2)), new(true)
		spec.Cache.StaleWhileRevalidate = "2h" // longer than the time since the object expired
	})
	client := n.Client()
	ask(t, client, http.MethodGet, example, "Range: bytes=5-9") // counts as a use of the first slice only
	_, body := ask(t, client, http.MethodGet, example, "Range: bytes=5-", `If-Range: "old"`)
	if body != string(o.body) || conditions != nil {
		t.Errorf("%d bytes, want %d; the origin gets %q", len(body), len(o.body), conditions)
	}
	o.requests()
	expire(t, n, slice(0)+" http://www.example.com/object")
	ask(t, client, http.MethodGet, example, "Range: bytes=5-9", `If-Range: "a"`, `If-None-Match: "old"`)
	var asked []string
	becomes(t, slice(0), func() string { // the renewal runs in the background
		asked = append(asked, o.requests()...)
		return strings.Join(asked, " ")
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if diff := cmp.Diff([]string{`If-None-Match: "a"`}, conditions); diff != "" {
		t.Errorf("conditions of a renewal (-want +got)\n%s", diff)
	}
}
