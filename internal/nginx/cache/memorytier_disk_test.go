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

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/lab"
)

// TestMemoryTierAndFailingDisk checks that another disk stands in for a failed disk if there is a memory tier. Objects
// in memory need neither of the two disks.
func TestMemoryTierAndFailingDisk(t *testing.T) {
	t.Parallel()
	n, config := threeDisksWithTier(t, "minUses: 2")
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
	becomes(t, "HIT memory", func() string {
		r, _ := ask(t, client, http.MethodGet, "http://127.0.0.1:8080"+paths[0])
		return place(r)
	})
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
	t.Parallel()
	n, _ := threeDisksWithTier(t, "minUses: 2")
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
	becomes(t, "HIT memory", hot)
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
	expireInMemory(t, n, "http://www.example.com/hot")
	becomes(t, "told: nginx's log true, the agent true", func() string {
		hot()
		return fmt.Sprintf("told: nginx's log %t, the agent %t", told(n.Log()), told(reports()))
	})
}

// TestMemoryTierAndHangingDisk checks that requests for objects in memory do not wait for a disk that hangs, neither
// while a copy is fresh nor while it is renewed. The renewal of one object does not wait for the renewal of another
// object.
func TestMemoryTierAndHangingDisk(t *testing.T) {
	t.Parallel()
	l, err := lab.New("")
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	disk, err := l.Disk("disk1", 512, lab.Usual(0))
	must(t, err)
	cgroup, err := l.Cgroup("nginx", 1<<30, []lab.Disk{disk})
	must(t, err)

	n := nginxtest.New(t)
	oneDisk := strings.Replace(threeDisks, ", {name: disk2, size: 1Gi}, {name: disk3, size: 1Gi}", "", 1)
	tier := "  io: {mode: Threads}\n" + nginxtest.MemoryTier("minUses: 2")
	config, err := cache.Render(decode(t, []byte(oneDisk+tier)))
	must(t, err)
	n.Mkdir(layout.DiskDir("disk1"))
	must(t, unix.Mount(disk.Dir, n.Root+layout.DiskDir("disk1"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(n.Root+layout.DiskDir("disk1"), unix.MNT_DETACH)) })
	n.Configure(oftenRenewed(config.Text), "disk1")
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
	const hotObjects, coldObjects = 4, 100
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
	var answered atomic.Int64
	for i := range coldObjects {
		requests.Go(func() {
			if status, err := fetchStatus(client, fmt.Sprintf("/cold/%d", i)); err != nil || status != http.StatusOK {
				t.Errorf("from the disk: status %d, %v", status, err)
			}
			answered.Add(1)
		})
	}
	occupied(t, n, coldObjects/2)
	seen := map[string]int{}
	for i := range hotObjects {
		expireInMemory(t, n, fmt.Sprintf("http://www.example.com/hot/%d", i))
	}
	for range 50 { // while the disk hangs
		for i := range hotObjects {
			r, body := ask(t, client, http.MethodGet, fmt.Sprintf("%s/hot/%d", base, i))
			if seen[place(r)]++; len(body) != 100_000 {
				t.Errorf("%d bytes", len(body))
			}
		}
	}
	if got := answered.Load(); got > coldObjects/2 {
		t.Errorf("%d of %d requests for objects on the disk were answered: the disk does not hang", got, coldObjects)
	}
	if diff := cmp.Diff(map[string]int{"UPDATING memory": 50 * hotObjects}, seen); diff != "" {
		t.Errorf("hot objects while the disk hangs (-want +got):\n%s", diff)
	}
	must(t, cgroup.Lift())
	requests.Wait()
	for i := range hotObjects {
		becomes(t, "HIT memory", func() string {
			r, _ := ask(t, client, http.MethodGet, fmt.Sprintf("%s/hot/%d", base, i))
			return place(r)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
