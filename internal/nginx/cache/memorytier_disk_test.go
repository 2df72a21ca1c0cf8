package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// TestMemoryTierAndFailingDisk checks that another disk stands in for a failed one with a memory tier too, and that
// objects in memory need neither disk.
func TestMemoryTierAndFailingDisk(t *testing.T) {
	n, config := threeDisksWithTier(t, "{enabled: true, size: 64Mi, minUses: 2}")
	var count atomic.Int64
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		_, _ = io.WriteString(w, strings.Repeat("x", 500))
	}))
	n.Start()
	client := n.Client()
	tree := config.Plan.Tree()
	var paths []string // all on disk2
	for i := 0; len(paths) < 3; i++ {
		if path := fmt.Sprintf("/object/%d", i); tree.Owner([]byte("http://www.example.com"+path)) == "disk2" {
			paths = append(paths, path)
		}
	}
	for range 8 {
		_, _ = ask(t, client, http.MethodGet, "http://127.0.0.1:8080"+paths[0])
		time.Sleep(20 * time.Millisecond)
	}
	if err := os.RemoveAll(n.Root + layout.CacheDir("disk2")); err != nil {
		t.Fatal(err)
	}
	if r, _ := ask(t, client, http.MethodGet, "http://127.0.0.1:8080"+paths[0]); place(r) != "HIT memory" {
		t.Errorf("the hot object came from %s", place(r))
	}
	for i, want := range []string{"MISS disk3", "HIT disk3"} {
		r, body := ask(t, client, http.MethodGet, "http://127.0.0.1:8080"+paths[1])
		got := r.Header.Get("X-Cache") + " " + r.Header.Get("X-Cache-Disk")
		if got != want || r.StatusCode != http.StatusOK || len(body) != 500 {
			t.Errorf("request %d: %d from %s, %d bytes; want %s", i, r.StatusCode, got, len(body), want)
		}
	}
	r, _ := ask(t, client, http.MethodGet, "http://127.0.0.1:8080"+paths[2], "Authorization: Bearer x")
	if r.StatusCode != http.StatusOK || r.Header.Get("X-Cache") != "BYPASS" {
		t.Errorf("with credentials: %d, %s", r.StatusCode, r.Header.Get("X-Cache"))
	}
	if got := count.Load(); got != 3 {
		t.Errorf("the origin was asked %d times, want 3", got)
	}
}

// TestDiskThatFailsTheTier checks that disk errors during promotion are logged and reported to the agent, and that
// clients get the object nevertheless.
func TestDiskThatFailsTheTier(t *testing.T) {
	n, _ := threeDisksWithTier(t, "{enabled: true, size: 64Mi, minUses: 2, maxExtraAge: 1s}")
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 500))
	}))
	n.Start()
	client := n.Client()
	hot := func() string {
		r, body := ask(t, client, http.MethodGet, "http://127.0.0.1:8080/hot")
		if r.StatusCode != http.StatusOK || len(body) != 500 {
			t.Errorf("%d with %d bytes", r.StatusCode, len(body))
		}
		return place(r)
	}
	for where, end := "", time.Now().Add(10*time.Second); where != "HIT memory"; time.Sleep(20 * time.Millisecond) {
		if where = hot(); time.Now().After(end) {
			t.Fatalf("the hot object came from %s", where)
		}
	}
	for _, path := range n.Cached("http://www.example.com/hot", "disk1", "disk2", "disk3") {
		must(t, os.Chmod(path, 0))
	}
	told := func(lines string) bool {
		for line := range strings.Lines(lines) {
			if strings.Contains(line, "[crit]") && strings.Contains(line, "Permission denied") &&
				strings.Contains(line, "server: , ") {
				return true
			}
		}
		return false
	}
	reports := func() string { return strings.Join(n.Reports(), "\n") }
	for end := time.Now().Add(time.Minute); !told(n.Log()) || !told(reports()); time.Sleep(20 * time.Millisecond) {
		hot()
		if time.Now().After(end) {
			t.Fatalf("told: nginx's log %t, the agent %t\n%s", told(n.Log()), told(reports()), n.Log())
		}
	}
}

// TestMemoryTierAndHangingDisk checks that requests for objects in memory do not wait for a disk that hangs, neither
// while a copy is fresh nor while it is renewed. The renewal of one object does not wait for that of another.
func TestMemoryTierAndHangingDisk(t *testing.T) {
	l, err := lab.New("")
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	disk, err := l.Disk("disk1", 512, lab.Usual(0))
	must(t, err)
	cgroup, err := l.Cgroup("nginx", 1<<30, []lab.Disk{disk})
	must(t, err)

	n := nginxtest.New(t)
	oneDisk := strings.Replace(threeDisks, ", {name: disk2, size: 1Gi}, {name: disk3, size: 1Gi}", "", 1)
	tier := "  io: {mode: Threads}\n  memoryTier: {enabled: true, size: 64Mi, minUses: 2, maxExtraAge: 3s}\n"
	config, err := cache.Render(decode(t, []byte(oneDisk+tier)))
	must(t, err)
	n.Mkdir(layout.DiskDir("disk1"))
	must(t, unix.Mount(disk.Dir, n.Root+layout.DiskDir("disk1"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(n.Root+layout.DiskDir("disk1"), unix.MNT_DETACH)) })
	n.Configure(config.Text, "disk1")
	n.Mkdir(layout.MemoryTierDir)
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, strings.Repeat("x", 100_000))
	}))
	n.Start()
	for _, pid := range n.Processes() {
		must(t, cgroup.Add(pid))
	}
	client := n.Client()
	const base, hotObjects, coldObjects = "http://127.0.0.1:8080", 4, 30
	for i := range coldObjects {
		ask(t, client, http.MethodGet, fmt.Sprintf("%s/cold/%d", base, i))
	}
	for i := range hotObjects {
		becomes(t, "HIT memory", func() string {
			r, _ := ask(t, client, http.MethodGet, fmt.Sprintf("%s/hot/%d", base, i))
			return place(r)
		})
	}
	must(t, disk.Evict())
	must(t, cgroup.Throttle(lab.Speed{Reads: 1, Bytes: 1 << 30}))
	t.Cleanup(func() { must(t, cgroup.Lift()) })

	var requests sync.WaitGroup
	var hung atomic.Int64
	var lifted atomic.Bool
	const measured = 8 * time.Second // in which each copy expires twice
	for i := range coldObjects {
		requests.Go(func() {
			request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s/cold/%d", base, i), nil)
			if err != nil {
				t.Error(err)
				return
			}
			request.Host = "www.example.com"
			response, err := client.Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				t.Error(err)
			}
			_ = response.Body.Close()
			if lifted.Load() {
				hung.Add(1)
			}
		})
	}
	seen, longest := map[string]int{}, time.Duration(0)
	for end := time.Now().Add(measured); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for i := range hotObjects {
			begun := time.Now()
			r, body := ask(t, client, http.MethodGet, fmt.Sprintf("%s/hot/%d", base, i))
			longest = max(longest, time.Since(begun))
			seen[place(r)]++
			if len(body) != 100_000 {
				t.Errorf("%d bytes", len(body))
			}
		}
	}
	lifted.Store(true)
	must(t, cgroup.Lift())
	requests.Wait()
	t.Logf("hot objects came from %v, the longest took %s; of %d on the disk %d hung",
		seen, longest, coldObjects, hung.Load())
	if hung.Load() < coldObjects/2 {
		t.Error("the disk did not hang: nothing is shown")
	}
	for where := range seen {
		if !strings.HasSuffix(where, " memory") {
			t.Errorf("hot objects came from %v", seen)
		}
	}
	if seen["UPDATING memory"] == 0 || longest > 2*time.Second {
		t.Errorf("hot objects came from %v; the longest took %s", seen, longest)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
