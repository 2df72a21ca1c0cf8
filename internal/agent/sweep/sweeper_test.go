package sweep

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/test/await"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// machine is the clock of nginx and of the files.
var machine clock.RealClock

// site is an nginx with one disk, and the keeper of its index.
type site struct {
	t      *testing.T
	nginx  *nginxtest.Nginx
	keeper *index.Keeper
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
  memoryTier: {enabled: false}
  cache: {staleWhileRevalidate: 0s, staleIfError: 30m}
`)
	s := &site{t: t, nginx: nginxtest.New(t)}
	s.nginx.Configure(config.Text, "disk1")
	s.nginx.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/stale") {
			w.Header().Set("ETag", `"1"`)
		}
		if r.URL.Path == "/stale/long" {
			w.Header().Set("Cache-Control", "max-age=60, stale-if-error=86400")
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(r.URL.Path))
	}))
	for folder := range cachekey.Folder(cachekey.Folders) { // in a pod, the keeper runs as nginx's user
		s.nginx.Mkdir(layout.CacheDir("disk1") + "/" + folder.Path())
	}
	s.nginx.Start()
	blocks := index.NewCache(1 << 20)
	x, err := index.OpenInMemory(blocks)
	must(t, err)
	s.keeper = &index.Keeper{
		Disk: index.Disk{Folder: s.nginx.Root + layout.CacheDir("disk1"), Index: x}, Pace: rate.NewLimiter(rate.Inf, 1),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.keeper.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
		must(t, x.Close())
		blocks.Close()
	})
	await.True(s.t, "the index is not complete", s.keeper.Complete)
	return s
}

// wants fetches an object, and checks the cache status and the body of the response.
func (s *site) wants(want, path string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	must(s.t, err)
	request.Host = "www.example.com"
	response, err := s.nginx.Client().Do(request)
	must(s.t, err)
	body, err := io.ReadAll(response.Body)
	must(s.t, err)
	must(s.t, response.Body.Close())
	if got := response.Header.Get("X-Cache"); got != want || string(body) != path {
		s.t.Errorf("%s: %s with the body %q, want %s", path, got, body, want)
	}
}

func key(path string) string { return "http://www.example.com" + path }

// entry returns the index's entry of an object that is stored in one file.
func (s *site) entry(path string) (e index.Entry, ok bool) {
	s.t.Helper()
	for f, err := range s.keeper.Index.WithKey(key(path)) {
		must(s.t, err)
		e, ok, err = s.keeper.Index.Get(f)
		must(s.t, err)
	}
	return e, ok
}

// age changes the file of an object, and waits until the index has read it again.
func (s *site) age(path string, change func(file string)) {
	s.t.Helper()
	await.True(s.t, path+" is not in the index", func() bool { _, ok := s.entry(path); return ok })
	before, _ := s.entry(path)
	change(filepath.Join(s.keeper.Folder, before.File.Path()))
	s.keeper.Reread(before.File)
	await.True(s.t, path+" is not read again", func() bool {
		e, _ := s.entry(path)
		return !cmp.Equal(before, e)
	})
}

func (s *site) expired(path string, ago time.Duration) {
	s.t.Helper()
	s.age(path, func(file string) { must(s.t, cachefile.Expire(file, machine.Now().Add(-ago))) })
}

func (s *site) stored(path string, ago time.Duration) {
	s.t.Helper()
	s.age(path, func(file string) { must(s.t, os.Chtimes(file, time.Time{}, machine.Now().Add(-ago))) })
}

// TestSweep checks which of nginx's files a sweep removes, and that it keeps objects that the origin can renew.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var foreign, own string
	for i := 0; foreign == "" || own == ""; i++ {
		path := fmt.Sprint("/", i)
		if disks().Tree().Owner([]byte(key(path))) == "disk1" {
			own = path
		} else {
			foreign = path
		}
	}
	paths := []string{foreign, own, "/stale", "/stale/shortly", "/stale/long", "/stale/stamped", "/renewed"}
	for _, path := range paths {
		s.wants("MISS", path)
	}
	s.stored(foreign, 3*time.Hour)
	s.stored(own, 3*time.Hour)
	s.expired("/stale", 2*time.Hour)
	s.expired("/stale/shortly", time.Hour)
	s.expired("/stale/long", 2*time.Hour)
	s.expired("/renewed", 2*time.Hour)
	s.expired("/stale/stamped", 2*time.Hour)
	stamped, _ := s.entry("/stale/stamped")
	must(t, cachefile.Stamp(filepath.Join(s.keeper.Folder, stamped.File.Path()))) // this causes no event

	removed := map[Reason]int{}
	rules := Rules{
		Stale: 30 * time.Minute, Since: machine.Now().Add(-2 * time.Hour), Owners: NewOwners(0, nil, []shard.Plan{disks()}),
	}
	asked, work := 0, true
	sweeper := Sweeper{
		Disk: "disk1", Keeper: s.keeper, Clock: machine, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Removed: func(reason Reason) { removed[reason]++ },
		Rules: func() (Rules, bool) {
			if asked++; asked == 2 {
				work = false
			}
			return rules, !work
		},
	}
	must(t, sweeper.Sweep(t.Context()))
	// The keys of the other paths may also belong to disk2, but their files were stored after Since.
	if diff := cmp.Diff(map[Reason]int{Stale: 1, Foreign: 1}, removed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	await.True(s.t, "the index has what was removed, or what nginx cannot use", func() bool {
		_, stale := s.entry("/stale")
		_, isForeign := s.entry(foreign)
		_, isStamped := s.entry("/stale/stamped")
		return !stale && !isForeign && !isStamped
	})
	s.wants("HIT", own)
	s.wants("REVALIDATED", "/renewed")
	s.wants("MISS", foreign)
	s.wants("MISS", "/stale")
	s.wants("EXPIRED", "/stale/shortly")
	s.wants("EXPIRED", "/stale/long")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sweeper.Sweep(ended); err == nil {
		t.Error("a sweep goes on when the context has ended")
	}
}

// TestSweepsAtIntervals checks when sweeps begin. The first sweep begins ten minutes after the end of the disk's other
// work. Another sweep follows every hour.
func TestSweepsAtIntervals(t *testing.T) {
	t.Parallel()
	blocks := index.NewCache(1 << 20)
	x, err := index.OpenInMemory(blocks)
	must(t, err)
	fake := clocktesting.NewFakeClock(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
	var asked atomic.Int32
	sweeper := Sweeper{
		Disk: "disk1", Keeper: &index.Keeper{Disk: index.Disk{Index: x}}, Clock: fake, Log: slog.New(slog.DiscardHandler),
		Rules: func() (Rules, bool) { return Rules{}, asked.Add(1) > 1 },
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { sweeper.Run(ctx); close(ended) }()
	want := int32(1) // Run asks for the rules once at first, and then for each folder
	for _, next := range []struct {
		wait  time.Duration
		asked int32
	}{{again, 1}, {first, cachekey.Folders}, {every, cachekey.Folders}, {every, cachekey.Folders}} {
		waits := func() bool { return fake.HasWaiters() && asked.Load() == want }
		await.True(t, "the sweeper does not wait", waits)
		fake.Step(next.wait - time.Millisecond)
		if !waits() {
			t.Fatalf("it is early: the rules were asked for %d times after less than %s", asked.Load(), next.wait)
		}
		fake.Step(time.Millisecond)
		want += next.asked
	}
	await.True(t, "the last sweep does not end", func() bool { return fake.HasWaiters() && asked.Load() == want })
	cancel()
	await.Receive(t, "the sweeper goes on when the context has ended", ended)
	must(t, x.Close())
	blocks.Close()
}
