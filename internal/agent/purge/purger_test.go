package purge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	agentpurge "github.com/cachenode/cachenode-operator/internal/agent/purge"
	"github.com/cachenode/cachenode-operator/internal/agent/sweep"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/test/await"
)

const host = "www.example.com"

// both are paths of objects. Each of the two disks has some of these objects.
var both = []string{"/a/1", "/a/2", "/a/3", "/a/4", "/b/1", "/b/2", "/c/1", "/c/2"}

// machine is the clock of nginx and of the files.
var machine clock.RealClock

// site is an nginx with two disks, an origin whose objects have versions, and a purger.
type site struct {
	t      *testing.T
	nginx  *nginxtest.Nginx
	client *http.Client
	yaml   string
	facts  cache.Facts
	// addresses are the addresses of the pods, by ordinal. edit changes the rendered configuration; nil changes nothing.
	addresses map[int]string
	edit      func(text string) string
	journal   ledger
	sent      int64
	purger    *agentpurge.Purger
	end       context.CancelFunc
	// usable is true while the disks are usable.
	usable atomic.Bool
	// before is called with each new purger before the purger watches disks.
	before func(*agentpurge.Purger)

	mutex sync.Mutex
	// version is part of all bodies. answer is called with the path before a response is sent. body is called with the
	// path before the end of a response's body.
	version      int
	size         int // the size of the bodies, if it is more than least
	answer, body func(path string)
	// removed counts the files that were removed for other reasons than a purge.
	removed map[sweep.Reason]int
}

func newSite(t *testing.T, spec string) *site {
	t.Helper()
	s := prepareSite(t, spec)
	s.start(s.origin)
	return s
}

// prepareSite returns a site whose origin, purger and nginx do not run yet.
func prepareSite(t *testing.T, spec string) *site {
	t.Helper()
	s := &site{t: t, nginx: nginxtest.New(t), removed: map[sweep.Reason]int{}, facts: cache.Facts{Cores: 2}, yaml: `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 1Gi}, {name: disk2, size: 1Gi}]
  origin: {servers: [{host: 127.0.0.1, port: 9000}]}
` + spec}
	s.client = s.nginx.Client()
	s.usable.Store(true)
	return s
}

// start starts the origin, the purger and nginx.
func (s *site) start(origin http.HandlerFunc) {
	s.t.Helper()
	s.nginx.Configure(s.render().Text, "disk1", "disk2")
	s.nginx.Mkdir(layout.MemoryTierDir)
	for _, folder := range []string{layout.CacheDir("disk1"), layout.CacheDir("disk2"), layout.MemoryTierCache} {
		s.nginx.Mkdir(folder)
	}
	s.nginx.Serve("127.0.0.1:9000", origin)
	s.begin(nil)
	// In a pod, the agent runs as nginx's user. In this test, nginx can use a folder only after the purger has set the
	// folder's mode.
	for _, disk := range []string{"disk1", "disk2"} {
		last := s.nginx.Root + layout.CacheDir(disk) + "/" + cachekey.Folder(cachekey.Folders-1).Path()
		await.True(s.t, "the folders of the cache are missing", func() bool {
			info, err := os.Stat(last)
			return err == nil && info.Mode().Perm() == 0o770
		})
	}
	s.nginx.Start()
}

// begin starts a purger, as an agent does. mounted is the mounted journal; nil if no journal is mounted.
func (s *site) begin(mounted *purge.Journal) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.purger = agentpurge.New(slog.New(slog.NewTextHandler(s.t.Output(), nil)), s.nginx.Root+layout.PurgesCopy)
	if mounted != nil {
		s.purger.Load(*mounted)
	}
	s.purger.Removed = func(_ string, reason sweep.Reason) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.removed[reason]++
	}
	if s.before != nil {
		s.before(s.purger)
	}
	cacheNode, _, err := schema.Decode([]byte(s.yaml))
	must(s.t, err)
	s.purger.Configure([]string{"Surrogate-Key", "Cache-Tag"}, cacheNode.Spec.Cache)
	for _, disk := range []string{"disk1", "disk2"} {
		own := s.nginx.Root + filepath.Dir(layout.CacheDir(disk))
		s.purger.Watch(ctx, disk, agentpurge.Place{
			Folder: s.nginx.Root + layout.CacheDir(disk), State: s.nginx.Root + layout.PurgesState(disk),
			Checked: own + "/checked", Indexes: own,
			IsUsable: s.usable.Load, Owner: "default/edge",
		})
	}
	if effective.HasMemoryTier(cacheNode.Spec) {
		s.purger.Watch(ctx, purge.MemoryStore, agentpurge.Place{
			Folder: s.nginx.Root + layout.MemoryTierCache, State: s.nginx.Root + layout.MemoryPurges,
			IsUsable: func() bool { return true },
		})
	}
	s.purger.SetInUse(nil, nil) // without this call, no purge counts as applied
	done := make(chan struct{})
	go func() { s.purger.Run(ctx); close(done) }()
	purger := s.purger
	s.end = func() { cancel(); <-done; purger.Ended() }
	s.t.Cleanup(s.end)
}

// least is the smallest size of a body. large is the size for tests that need responses in flight. With the race
// detector, such tests are slow.
const (
	least = 10_000
	large = 300_000
)

// filling is the text that fills the bodies.
var filling = strings.Repeat("x", 2_500_000)

// origin answers requests to the origin. It gives each object two tags: "all", and the name of the first folder in the
// path. Responses vary by X-Device.
func (s *site) origin(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	version, answer, body := s.version, s.answer, s.body
	s.mutex.Unlock()
	w.Header().Set("Surrogate-Key", "all "+strings.Split(r.URL.Path, "/")[1])
	w.Header().Set("Vary", "X-Device")
	w.Header().Set("Cache-Control", "max-age=600")
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, version))
	if answer != nil {
		answer(r.URL.Path)
	}
	if size, ok := strings.CutPrefix(r.URL.Path, "/tags/"); ok {
		n, _ := strconv.Atoi(size)
		w.Header().Set("Surrogate-Key", strings.Repeat("article-1 ", n/10))
	}
	text := fmt.Sprintf("%s %d ", r.URL.Path, version) + filling[:max(least, s.size)]
	if strings.HasPrefix(r.URL.Path, "/chunked/") {
		_, _ = io.WriteString(w, text)
		return
	}
	if body != nil {
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = io.WriteString(w, text[:least/2])
		w.(http.Flusher).Flush() //nolint:forcetypeassert // the server's own
		body(r.URL.Path)
		_, _ = io.WriteString(w, text[least/2:])
		return
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
}

// publish increments the version of all objects at the origin, and returns the new version.
func (s *site) publish() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.version++
	return s.version
}

// get fetches a path for a device. It returns the header X-Cache and the version that the body contains.
func (s *site) get(path, device string) (status string, version int) {
	s.t.Helper()
	response, version := s.fetch(path, device)
	return response.Header.Get("X-Cache"), version
}

// fetch fetches a path for a device and reads the whole body. It returns the response and the version that the body
// contains.
func (s *site) fetch(path, device string) (response *http.Response, version int) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	must(s.t, err)
	request.Host = host
	request.Header.Set("X-Device", device)
	response, err = s.client.Do(request)
	must(s.t, err)
	defer func() { _ = response.Body.Close() }()
	got := ""
	_, err = fmt.Fscanf(response.Body, "%s %d", &got, &version)
	must(s.t, err)
	_, err = io.Copy(io.Discard, response.Body)
	must(s.t, err)
	if want, _, _ := strings.Cut(path, "?"); got != want {
		s.t.Fatalf("%s has the body of %s", path, got)
	}
	return response, version
}

// wants fetches paths for two devices, and checks the cache status and the version of each response.
func (s *site) wants(want string, version int, paths ...string) {
	s.t.Helper()
	for _, path := range paths {
		for _, device := range []string{"phone", "desk"} {
			if got, v := s.get(path, device); got != want || v != version {
				s.t.Errorf("%s for %s: %s of version %d, want %s of %d", path, device, got, v, want, version)
			}
		}
		if want == "REVALIDATED" {
			s.renewed(path)
		}
	}
}

// purge adds a rule to the journal, sends it to the purger, and waits until it is applied.
func (s *site) purge(t purge.Target, soft bool) purge.Rule {
	s.t.Helper()
	r := s.journal.Add(machine.Now(), purge.Rule{UID: "uid", Name: "test", Soft: soft, Target: t})
	s.send()
	return r
}

// files returns how many files were invalidated for a rule.
func (s *site) files(r purge.Rule) (n int64) {
	for _, store := range s.purger.Done(0).Stores {
		n += store.Counts[r.Number].Files
	}
	return n
}

// seal sets the end of a rule to now, and waits until new responses arrive after this end.
func (s *site) seal(r purge.Rule) {
	s.t.Helper()
	end := s.journal.endNow(r.Number)
	s.send()
	s.arrivesAfter(end)
}

// ledger is a journal of purges.
type ledger struct{ purge.Journal }

// endNow ends a rule, and returns the time after which a response must arrive to be spared.
func (l *ledger) endNow(number int64) (end time.Time) {
	now := machine.Now()
	l.Seal(now, number, now.Add(-2*time.Second)) // the margin is two seconds
	r, _ := l.Get(number)
	return r.End()
}

// arrivesAfter waits until nginx's clock, which counts whole seconds, is later than a given time.
func (s *site) arrivesAfter(end time.Time) {
	s.t.Helper()
	await.True(s.t, "nginx's clock stands still", func() bool {
		response, err := s.client.Get("http://127.0.0.1:8081/healthz")
		must(s.t, err)
		must(s.t, response.Body.Close())
		now, err := http.ParseTime(response.Header.Get("Date"))
		must(s.t, err)
		return now.After(end)
	})
}

// expires makes nginx's copies of an object stale.
func (s *site) expires(path string) {
	s.t.Helper()
	for _, file := range s.stored(path) {
		must(s.t, cachefile.Expire(file, machine.Now().Add(-time.Minute)))
	}
}

// renewed waits until nginx has recorded in the files of an object that the origin has renewed the object. nginx does
// this after the client has received the response.
func (s *site) renewed(path string) {
	s.t.Helper()
	for _, file := range s.stored(path) {
		await.True(s.t, path+" is not renewed", func() bool {
			text, err := os.ReadFile(file)
			must(s.t, err)
			h, err := cachefile.Read(bytes.NewReader(text))
			must(s.t, err)
			return h.ValidUntil.After(machine.Now())
		})
	}
}

// stored waits until nginx has stored an object for both devices, and returns the files.
func (s *site) stored(path string) (files []string) {
	s.t.Helper()
	await.True(s.t, path+" is not stored for two devices", func() bool {
		files = s.cached(path)
		return len(files) == 2
	})
	return files
}

func (s *site) send() {
	s.t.Helper()
	s.tell()
	s.applied()
}

// tell sends the new rules of the journal to the purger.
func (s *site) tell() {
	s.t.Helper()
	must(s.t, s.purger.Receive(purge.Update{
		Floor: s.journal.Floor, Head: s.journal.Head, Rules: s.journal.Since(s.sent), After: s.sent,
	}))
	s.sent = s.journal.Head
}

// applied waits until the whole journal is applied.
func (s *site) applied() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), await.Patience)
	defer cancel()
	s.purger.Wait(ctx, s.journal.Head)
	if done := s.purger.Done(0); done.Applied != s.journal.Head {
		s.t.Fatalf("not applied: %+v", done)
	}
}

func url(path string) string { return "http://" + host + path }

func TestPurge(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]purge.Target{
		"a URL":            {URLs: []string{url("/a/1"), url("/a/2?q=1")}},
		"a URL by https":   {URLs: []string{"https://WWW.example.com:8443/a/1", url("/a/2?q=1")}},
		"a prefix":         {Prefixes: []string{url("/a")}},
		"a tag":            {Tags: []string{"a"}},
		"two tags and URL": {Tags: []string{"none", "a"}, URLs: []string{url("/none")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "  memoryTier: {enabled: false}\n")
			purged, others := []string{"/a/1", "/a/2?q=1"}, []string{"/b/1", "/b/a"}
			s.wants("MISS", 0, append(purged, others...)...)
			s.wants("HIT", 0, append(purged, others...)...)
			s.publish()
			r := s.purge(target, false)
			if files := s.files(r); files != 4 {
				t.Errorf("%d files were counted, want 4: two variants of two objects", files)
			}
			s.wants("MISS", 1, purged...)
			s.wants("HIT", 0, others...)
			s.seal(r)
			s.wants("MISS", 1, purged...) // copies that came before the end were removed
			s.wants("HIT", 1, purged...)
		})
	}
}

func TestPurgeAll(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]purge.Target{
		"a host": {Hosts: []string{host}}, "everything": {Everything: true}, "a tag": {Tags: []string{"all"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "  memoryTier: {enabled: false}\n")
			s.wants("MISS", 0, "/a/1", "/b/1")
			s.publish()
			s.purge(purge.Target{Hosts: []string{"www.example.org"}, Tags: []string{"c"}}, false)
			s.wants("HIT", 0, "/a/1", "/b/1")
			s.purge(target, false)
			s.wants("MISS", 1, "/a/1", "/b/1")
		})
	}
}

// TestSoft checks that a soft purge makes nginx ask the origin, and that an object that has not changed stays in the
// cache.
func TestSoft(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n  cache: {staleWhileRevalidate: 0s}\n")
	s.wants("MISS", 0, "/a/1", "/b/1", "/c/1")
	r := s.purge(purge.Target{Tags: []string{"a"}}, true)
	s.wants("HIT", 0, "/b/1")
	s.wants("REVALIDATED", 0, "/a/1")
	s.seal(r)
	s.wants("REVALIDATED", 0, "/a/1") // answers of the origin from before the end do not count
	s.wants("HIT", 0, "/a/1")
	s.publish()
	s.purge(purge.Target{URLs: []string{url("/c/1")}}, true) // nginx still shares the origin's answer for /a/1
	s.wants("EXPIRED", 1, "/c/1")
}

// TestSlices checks that a purge finds all slices of an object, and only those.
func TestSlices(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n  cache: {slice: {size: 1Mi}}\n")
	s.size = 2_500_000
	s.wants("MISS", 0, "/a/1", "/b/1")
	s.wants("HIT", 0, "/a/1", "/b/1")
	s.publish()
	if files := s.files(s.purge(purge.Target{URLs: []string{url("/a/1")}}, false)); files != 6 {
		t.Errorf("%d slices were counted, want 6: three for each device", files)
	}
	if _, version := s.get("/a/1", "phone"); version != 1 {
		t.Errorf("version %d after the purge", version)
	}
	s.wants("HIT", 0, "/b/1")
}

// TestMemoryTier checks that a purge removes a hot object from the memory tier as well as from the disk. The old copy
// must not come back.
func TestMemoryTier(t *testing.T) {
	t.Parallel()
	s := newSite(t, nginxtest.MemoryTier("maxObjectSize: 1Mi"))
	s.size = large
	for range 10 {
		s.get("/a/1", "phone")
	}
	s.nginx.Cached(url("/a/1"), "../cachenode-memory") // fails the test if there is no copy in memory
	for range 5 {
		want := s.publish()
		r := s.purge(purge.Target{Tags: []string{"a"}}, false)
		for range 5 {
			if status, version := s.get("/a/1", "phone"); version != want {
				t.Fatalf("%s of version %d after the purge, want %d", status, version, want)
			}
		}
		s.seal(r)
		for range 10 {
			if status, version := s.get("/a/1", "phone"); version != want {
				t.Fatalf("%s of version %d after the end, want %d", status, version, want)
			}
		}
	}
}

// TestInFlight checks two responses that nginx must not keep. The origin creates the first response before a purge, and
// it arrives after the purge. The second response begins to arrive before the end of a purge, and is stored after this
// end.
func TestInFlight(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	asked, goOn := make(chan struct{}, 1), make(chan struct{})
	waits := func(string) { asked <- struct{}{}; <-goOn }
	s.answers(waits, nil)
	old := make(chan int)
	fetch := func(path string) { _, version := s.get(path, "phone"); old <- version }
	go fetch("/a/1")
	<-asked
	s.answers(nil, nil)
	s.publish()
	r := s.purge(purge.Target{URLs: []string{url("/a/1")}}, false)
	close(goOn)
	if version := <-old; version != 0 {
		t.Errorf("the request before the purge got version %d", version)
	}
	await.True(t, "the response is not looked at", func() bool { return s.files(r) == 1 })
	s.never("/a/1", 0)

	goOn = make(chan struct{})
	s.answers(nil, waits)
	go fetch("/b/1")
	<-asked
	s.answers(nil, nil)
	version := s.publish()
	r = s.purge(purge.Target{URLs: []string{url("/b/1")}}, false)
	s.journal.Seal(machine.Now(), r.Number, machine.Now())
	s.send()
	close(goOn)
	if got := <-old; got != version-1 {
		t.Errorf("the request before the end got version %d, want %d", got, version-1)
	}
	await.True(t, "the second response is not looked at", func() bool { return s.files(r) == 1 })
	s.never("/b/1", version-1)
}

// answers sets the functions that are called before the origin answers, and before the end of a body.
func (s *site) answers(answer, body func(path string)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.answer, s.body = answer, body
}

// TestRenewalInFlight purges an object while nginx validates it at the origin. The object must not come back when the
// origin answers 304 after the purge. nginx validates the object for a client's request, or in a background update.
func TestRenewalInFlight(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct{ stale, status string }{
		"a client waits":    {"staleWhileRevalidate: 0s", "REVALIDATED"},
		"in the background": {"staleWhileRevalidate: 10m, backgroundUpdate: true", "STALE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// With only one worker, nginx has processed the 304 before it answers the next request.
			s := prepareSite(t, "  memoryTier: {enabled: false}\n  cache: {"+how.stale+"}\n")
			s.facts.Cores = 1
			asked, goOn, answered := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 1)
			s.start(func(w http.ResponseWriter, r *http.Request) {
				s.origin(w, r)
				if r.Header.Get("If-None-Match") != "" {
					_ = http.NewResponseController(w).Flush()
					answered <- struct{}{}
				}
			})
			s.wants("MISS", 0, "/a/1")
			s.expires("/a/1")
			s.answers(func(string) { asked <- struct{}{}; <-goOn }, nil)
			status := make(chan string)
			go func() { got, _ := s.get("/a/1", "phone"); status <- got }()
			<-asked
			s.answers(nil, nil)
			s.publish()
			s.purge(purge.Target{URLs: []string{url("/a/1")}}, false)
			close(goOn)
			if got := <-status; got != how.status {
				t.Errorf("the request before the purge: %s, want %s", got, how.status)
			}
			<-answered
			s.never("/a/1", 0)
		})
	}
}

// never checks that nginx does not serve a version of a path.
func (s *site) never(path string, version int) {
	s.t.Helper()
	for range 5 {
		if status, got := s.get(path, "phone"); got == version {
			s.t.Errorf("%s: %s of version %d", path, status, got)
		}
	}
}

// TestRestart checks purges from a time without an agent. The disks must obey these purges before they count as
// current. Objects that nginx stored after a purge had ended must be spared.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	s.wants("MISS", 0, "/a/1", "/b/1")
	s.purge(purge.Target{URLs: []string{url("/none")}}, false)
	s.keeps()
	s.end()
	s.publish()
	r := s.journal.Add(machine.Now(), purge.Rule{Target: purge.Target{Tags: []string{"a"}}})
	end := s.journal.endNow(r.Number)
	s.wants("HIT", 0, "/a/1", "/b/1")
	s.arrivesAfter(end)
	s.wants("MISS", 1, "/a/2")
	must(t, os.Remove(s.nginx.Root+layout.PurgesCopy)) // as in a new pod
	s.begin(&s.journal.Journal)
	if s.purger.IsCurrent("disk1") && s.purger.IsCurrent("disk2") {
		t.Error("the disks are current at once")
	}
	s.applied()
	s.wants("HIT", 0, "/b/1")
	s.wants("HIT", 1, "/a/2")
	s.wants("MISS", 1, "/a/1")
}

// awaited is the reason for which a disk is behind if it has obeyed a journal, and the pod has no journal.
const awaited = "waits for the journal of purges from the operator"

// TestWithoutJournal checks that disks that once obeyed a journal are not used while the pod has no journal, whatever
// their files State contain. Disks that never obeyed a journal are used.
func TestWithoutJournal(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(note string) string{
		"as noted":       func(note string) string { return note },
		"a damaged note": func(string) string { return "{" },
		"a note of other policies": func(note string) string {
			return regexp.MustCompile(`"policies":"[^"]*"`).ReplaceAllString(note, `"policies":"others"`)
		},
		"a note with a cover": func(note string) string {
			return strings.Replace(note, "}", `,"cover":5,"lastGeneration":5}`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "  memoryTier: {enabled: false}\n")
			current := func() bool { return s.purger.IsCurrent("disk1") && s.purger.IsCurrent("disk2") }
			await.True(t, "disks without purges are not current", current)
			s.wants("MISS", 0, both...)
			s.purge(purge.Target{URLs: []string{url("/none")}}, false)
			s.keeps()
			s.end()
			must(t, os.Remove(s.nginx.Root+layout.PurgesCopy))
			for _, disk := range disks {
				must(t, os.WriteFile(s.nginx.Root+layout.PurgesState(disk), []byte(edit(s.note(disk))), 0o600))
			}
			s.begin(nil)
			await.True(t, "a disk does not wait for the journal", func() bool {
				return s.purger.Reason("disk1") == awaited && s.purger.Reason("disk2") == awaited
			})
			if s.purger.IsCurrent("disk1") || s.purger.IsCurrent("disk2") {
				t.Fatal("a disk is current although there is no journal")
			}
			if err := s.purger.Receive(purge.Update{Head: s.journal.Head, After: s.journal.Head - 1}); err == nil {
				t.Error("a part of the journal was taken without what is before it")
			}
			s.sent = 0
			s.send()
			await.True(t, "the disks do not become current with the journal", current)
			await.True(t, "a disk hides what it has", func() bool { return len(s.purger.Generations()) == 0 })
			s.wants("HIT", 0, both...)
		})
	}
}

// TestDamagedIndex checks an index that can be opened, but then turns out to be damaged. The index must be rebuilt, and
// purges must wait for the new index.
func TestDamagedIndex(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	s.wants("MISS", 0, both...)
	s.purge(purge.Target{Tags: []string{"none"}}, false)
	s.end()
	for _, disk := range disks {
		tables, err := filepath.Glob(s.nginx.Root + filepath.Dir(layout.CacheDir(disk)) + "/index-*/*.sst")
		if must(t, err); len(tables) == 0 {
			t.Fatalf("the index of %s has no tables", disk)
		}
		for _, table := range tables {
			file, err := os.OpenFile(table, os.O_RDWR, 0)
			must(t, err)
			_, err = file.WriteAt([]byte("damaged"), 20) // in its first block
			must(t, err)
			must(t, file.Close())
		}
	}
	s.begin(&s.journal.Journal)
	s.publish()
	s.purge(purge.Target{Tags: []string{"a"}}, false)
	s.wants("MISS", 1, "/a/1", "/a/2", "/a/3", "/a/4")
	s.wants("HIT", 0, "/b/1", "/b/2", "/c/1", "/c/2")
}

// TestNotes checks that a disk records up to which place it obeys the journal, even while new purges arrive all the
// time. This place must not be after the end of the journal's copy.
func TestNotes(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	first := s.purge(purge.Target{URLs: []string{url("/none")}}, false).Number
	s.purge(purge.Target{URLs: []string{url("/none")}}, false)
	s.end()
	must(t, os.RemoveAll(s.nginx.Root+layout.PurgesState("disk1")))
	must(t, s.purger.Note("disk1", first))
	if place := fmt.Sprintf(`"applied":%d,`, first); !strings.Contains(s.note("disk1"), place) {
		t.Errorf("disk1 notes %s, want %s", s.note("disk1"), place)
	}
}

// TestOutOfUse checks a disk that was out of use during a purge. The disk must obey this purge before it counts as
// current.
func TestOutOfUse(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	s.purger.SetInUse([]string{"disk1", "disk2"}, nil)
	s.wants("MISS", 0, "/a/1", "/a/2", "/a/3", "/a/4")
	s.usable.Store(false)
	s.purger.SetInUse(nil, nil)
	await.True(t, "a disk that has failed is current", func() bool {
		return !s.purger.IsCurrent("disk1") && !s.purger.IsCurrent("disk2")
	})
	s.publish()
	s.purge(purge.Target{Prefixes: []string{url("/a/")}}, false) // no disk is in use
	if s.purger.IsCurrent("disk1") || s.purger.IsCurrent("disk2") {
		t.Error("the disks are current")
	}
	s.usable.Store(true)
	await.True(t, "the disks do not become current", func() bool {
		return s.purger.IsCurrent("disk1") && s.purger.IsCurrent("disk2")
	})
	s.wants("MISS", 1, "/a/1", "/a/2", "/a/3", "/a/4")
}

// TestManyTags checks an object whose tags are not all in the index. A purge of any tag must also purge this object.
func TestManyTags(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	path := "/x" + strings.Repeat("y", 300) // the folder is also a tag, which is too long for the index
	s.wants("MISS", 0, path, "/b/1")
	s.publish()
	s.purge(purge.Target{Tags: []string{"whatever"}}, false)
	s.wants("MISS", 1, path)
	s.wants("HIT", 0, "/b/1")
}

// TestLargeTags checks that an object with 15 KB of tags can be purged by a tag. It also checks that 100 KB of tags
// count as an error of the origin.
func TestLargeTags(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	s.wants("MISS", 0, "/tags/15000")
	s.wants("HIT", 0, "/tags/15000")
	s.publish()
	s.purge(purge.Target{Tags: []string{"article-1"}}, false)
	s.wants("MISS", 1, "/tags/15000")
	response, err := s.client.Get("http://127.0.0.1:8080/tags/100000")
	must(t, err)
	must(t, response.Body.Close())
	if response.StatusCode != http.StatusBadGateway {
		t.Errorf("with 100 KB of tags: status %d, want 502", response.StatusCode)
	}
}

// TestOtherKeys checks that after an edit of spec.cache.key, purges of URLs match objects with the old key and objects
// with the new key.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	s.wants("MISS", 0, "/a/1")
	cacheNode, _, err := schema.Decode([]byte(s.yaml))
	must(t, err)
	headers, before := []string{"Surrogate-Key"}, cacheNode.Spec.Cache
	edited := *before.DeepCopy()
	edited.Key = []v1alpha1.KeyPart{v1alpha1.KeyHost, v1alpha1.KeyRequestURI}
	s.purger.Configure(headers, edited)
	s.publish()
	s.purge(purge.Target{URLs: []string{url("/a/1")}}, false)
	s.wants("HIT", 0, "/a/1") // nginx still uses the old key
	s.purger.Configure(headers, before)
	s.applied()
	s.wants("MISS", 1, "/a/1")
}

// note returns the content of a disk's file State; "" if there is no file.
func (s *site) note(disk string) string {
	s.t.Helper()
	text, err := os.ReadFile(s.nginx.Root + layout.PurgesState(disk))
	if !errors.Is(err, fs.ErrNotExist) {
		must(s.t, err)
	}
	return string(text)
}

// keeps waits until the disks have recorded that they have applied the whole journal.
func (s *site) keeps() {
	s.t.Helper()
	await.True(s.t, "what was applied is not noted", func() bool {
		for _, disk := range []string{"disk1", "disk2"} {
			if !strings.Contains(s.note(disk), fmt.Sprintf(`"owner":"default/edge","applied":%d,`, s.journal.Head)) {
				return false
			}
		}
		return true
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
