package cache_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/test/await"
	"github.com/cachenode/cachenode-operator/test/xfs"
)

const threeDisks = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge}
spec:
  disks: [{name: disk1, size: 1Gi}, {name: disk2, size: 1Gi}, {name: disk3, size: 1Gi}]
  origin:
    servers: [{host: 127.0.0.1, port: 9000}]
  hosts: [www.example.com]
`

// get fetches a path with a Host header.
func get(t *testing.T, client *http.Client, host, path string) (response *http.Response, body string) {
	t.Helper()
	return send(t, client, http.MethodGet, host, "http://127.0.0.1:8080"+path)
}

// send does the same as get, but with any method and URL, and with headers such as "Range: bytes=1-2".
func send(
	t *testing.T, client *http.Client, method, host, url string, headers ...string,
) (response *http.Response, body string) {
	t.Helper()
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	response, err = client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(content)
}

// origin echoes the path and the host, and counts the requests.
func origin(count *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Cache", "the origin's own")
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = fmt.Fprintf(w, "%s of %s", r.URL.Path, r.Host)
	})
}

func TestServe(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	in := decode(t, []byte(threeDisks))
	config, err := cache.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	var count atomic.Int64
	n.Serve("127.0.0.1:9000", origin(&count))
	n.Start()
	client := n.Client()

	t.Run("a miss, then hits, on the disk of the plan", func(t *testing.T) {
		tree := config.Plan.Tree()
		used := map[string]int{}
		for i := range 60 {
			path := fmt.Sprintf("/object/%d?x=1", i)
			want := tree.Owner([]byte("http://www.example.com" + path))
			for _, status := range []string{"MISS", "HIT"} {
				response, body := get(t, client, "www.example.com", path)
				if got := response.Header.Values("X-Cache"); len(got) != 1 || got[0] != status {
					t.Errorf("%s: X-Cache is %q, want %s", path, got, status)
				}
				if got := response.Header.Get("X-Cache-Disk"); got != want {
					t.Errorf("%s is on %s, want %s", path, got, want)
				}
				if want := fmt.Sprintf("/object/%d of www.example.com", i); body != want {
					t.Errorf("%s: body is %q, want %q", path, body, want)
				}
			}
			used[want]++
		}
		if len(used) != 3 || count.Load() != 60 {
			t.Errorf("objects by disk: %v, the origin was asked %d times; want three disks and 60", used, count.Load())
		}
		for disk, want := range used {
			if got := countFiles(t, n.Root+layout.CacheDir(disk)); got != want {
				t.Errorf("%s has %d files, want %d", disk, got, want)
			}
		}
	})
	t.Run("a host that is not served", func(t *testing.T) {
		before := count.Load()
		if response, _ := get(t, client, "stranger.example.com", "/"); response.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("status is %d, want 421", response.StatusCode)
		}
		if count.Load() != before {
			t.Error("the origin was asked")
		}
	})
	t.Run("the origin's own error passes through", func(t *testing.T) {
		response, body := get(t, client, "www.example.com", "/broken")
		if response.StatusCode != http.StatusInternalServerError || body != "/broken of www.example.com" {
			t.Errorf("got %d %q", response.StatusCode, body)
		}
		if got := response.Header.Get("X-Cache"); got != "MISS" {
			t.Errorf("X-Cache is %s, want MISS", got)
		}
	})
	t.Run("what is asked for with credentials is not shared", func(t *testing.T) {
		for _, want := range []string{"BYPASS", "BYPASS"} {
			request, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:8080/private", nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = "www.example.com"
			request.Header.Set("Authorization", "Bearer x")
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if got := response.Header.Get("X-Cache"); got != want {
				t.Errorf("X-Cache is %s, want %s", got, want)
			}
		}
		if response, _ := get(t, client, "www.example.com", "/private"); response.Header.Get("X-Cache") != "MISS" {
			t.Errorf("X-Cache is %s, want MISS", response.Header.Get("X-Cache"))
		}
	})
	t.Run("a large body passes through", func(t *testing.T) {
		upload := strings.NewReader(strings.Repeat("x", 8<<20))
		request, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:8080/upload", upload)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "www.example.com"
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("status is %d", response.StatusCode)
		}
	})
	t.Run("the private port", func(t *testing.T) {
		for path, want := range map[string]string{
			"/healthz":     "ok",
			"/version":     config.Version,
			"/stub_status": "Active connections",
		} {
			response, err := client.Get("http://127.0.0.1:8081" + path)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
				t.Errorf("%s: %d %q, want %q (error %v)", path, response.StatusCode, body, want, err)
			}
		}
		response, err := n.ClientFrom(net.ParseIP("127.0.0.2")).Get("http://127.0.0.1:8081/stub_status")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("others than the agent can read nginx's numbers: status %d", response.StatusCode)
		}
	})
}

func countFiles(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNoResponseIsHeldBack checks that the end of a response does not wait in the socket. With io.mode Direct,
// tcp_nopush is on. nginx then sets TCP_CORK for a HIT, and the kernel holds the last data of a corked socket for 200
// ms. nginx must clear TCP_CORK after each response, whatever its size, on a connection that stays open. With a memory
// tier, nginx would clear it too late, so tcp_nopush must be off.
func TestNoResponseIsHeldBack(t *testing.T) {
	t.Parallel()
	in := decode(t, []byte(threeDisks))
	for _, mode := range []v1alpha1.IOMode{v1alpha1.IOThreads, v1alpha1.IODirect} {
		for tier, change := range map[bool]func(*v1alpha1.CacheNodeSpec){true: inMemory, false: withoutTier} {
			in.Spec.IO.Mode = mode
			change(&in.Spec)
			config, err := cache.Render(in)
			must(t, err)
			corks := strings.Contains(config.Text, "tcp_nopush on;")
			if want := mode == v1alpha1.IODirect && !tier; corks != want {
				t.Errorf("io.mode %s, memory tier %t: tcp_nopush is on: %t, want %t", mode, tier, corks, want)
			}
		}
	}
	n := start(t, func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		_, _ = w.Write(make([]byte, size))
	}, withoutTier, func(spec *v1alpha1.CacheNodeSpec) { spec.IO.Mode = v1alpha1.IODirect })
	connection, err := n.Dial("127.0.0.1:8080")
	must(t, err)
	defer func() { _ = connection.Close() }()
	reader := bufio.NewReader(connection)
	for _, size := range []int{1, 1000, 1400, 1448, 1500, 3000, 16000, 60000, 66000, 140000} {
		for _, want := range []string{"MISS", "HIT"} {
			_, err := fmt.Fprintf(connection, "GET /%d HTTP/1.1\r\nHost: www.example.com\r\n\r\n", size)
			must(t, err)
			r, err := http.ReadResponse(reader, nil)
			must(t, err)
			body, err := io.ReadAll(r.Body)
			must(t, err)
			if got := r.Header.Get("X-Cache"); got != want || len(body) != size {
				t.Errorf("%d bytes, a %s; want %d, a %s", len(body), got, size, want)
			}
			becomes(t, "cork 0", func() string { return fmt.Sprint("cork ", cork(t, n, connection.LocalAddr())) })
		}
	}
}

func withoutTier(spec *v1alpha1.CacheNodeSpec) { spec.MemoryTier.Enabled = new(false) }

// cork returns TCP_CORK of nginx's end of a connection, or -1 if no nginx process has the connection.
func cork(t *testing.T, n *nginxtest.Nginx, client net.Addr) (cork int) {
	t.Helper()
	cork = -1
	for _, pid := range n.Processes() {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		must(t, err)
		process, err := unix.PidfdOpen(pid, 0)
		must(t, err)
		for _, file := range files {
			number, err := strconv.Atoi(file.Name())
			must(t, err)
			copied, err := unix.PidfdGetfd(process, number, 0)
			if err != nil { // nginx has closed the file in the meantime
				continue
			}
			peer, err := unix.Getpeername(copied)
			if address, ok := peer.(*unix.SockaddrInet4); err == nil && ok && address.Port == client.(*net.TCPAddr).Port {
				cork, err = unix.GetsockoptInt(copied, unix.IPPROTO_TCP, unix.TCP_CORK)
				must(t, err)
			}
			must(t, unix.Close(copied))
		}
		must(t, unix.Close(process))
	}
	return cork
}

// TestDeadDisk shuts a real file system down under nginx, after the cache loader has read the disks. Another disk then
// serves the keys of the dead disk, whether their objects were in the cache or not. The first response comes from the
// origin, and the next one is a HIT. The other disks are not affected.
func TestDeadDisk(t *testing.T) {
	t.Parallel()
	isLong(t)
	for name, spec := range map[string]string{
		"pools":        threeDisks,
		"many workers": threeDisks + "  io: {mode: Workers}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diskDies(t, spec)
		})
	}
}

func diskDies(t *testing.T, spec string) {
	t.Helper()
	n := nginxtest.New(t)
	in := decode(t, []byte(spec+"  logs: {level: Notice}\n"))
	config, err := cache.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	mount := n.Root + layout.DiskDir("disk2")
	xfs.Mount(t, mount)
	n.Disk("disk2")
	var count atomic.Int64
	n.Serve("127.0.0.1:9000", origin(&count))
	n.Start()
	client := n.Client()

	paths := make([]string, 90)
	for i := range paths {
		paths[i] = fmt.Sprintf("/object/%d", i)
		get(t, client, "www.example.com", paths[i])
	}
	hasRead := func() bool { return strings.Count(n.Log(), "/cachenode/cache ") == 3 }
	await.True(t, "the cache loader does not end", hasRead) // it starts a minute after nginx
	xfs.Shutdown(t, mount)
	if err := os.WriteFile(filepath.Join(mount, "probe"), nil, 0o600); err == nil {
		t.Fatal("the disk is still alive")
	}
	tree := config.Plan.Tree()
	seen := map[string]int{}
	fetch := func(path, wantOnDead, wantOnOthers string) {
		response, body := get(t, client, "www.example.com", path)
		own, status := tree.Owner([]byte("http://www.example.com"+path)), response.Header.Get("X-Cache")
		disk, want := own, wantOnOthers
		if own == "disk2" {
			disk, want = "disk3", wantOnDead
		}
		on := response.Header.Get("X-Cache-Disk")
		if response.StatusCode != http.StatusOK || body != path+" of www.example.com" || status != want || on != disk {
			t.Errorf("%s of %s: %d %q, X-Cache is %s on %s, want %s on %s",
				path, own, response.StatusCode, body, status, on, want, disk)
		}
		seen[own+" "+status]++
	}
	for _, path := range paths {
		fetch(path, "MISS", "HIT")
		fetch(path, "HIT", "HIT")
	}
	for i := range 60 {
		path := fmt.Sprintf("/new/%d", i)
		fetch(path, "MISS", "MISS")
		fetch(path, "HIT", "HIT")
	}
	t.Logf("%v", seen)
	if seen["disk2 HIT"] == 0 {
		t.Error("no object is on the dead disk: nothing is shown")
	}
}

// TestDeadDiskAndLock shuts a disk down while many clients wait for one object on it. The waiting requests do not
// notice that the disk has died. One after another gets the lock and asks the origin, and its response breaks off when
// nginx tries to write it to the disk. The others go on when the lock's timeout is over. Later requests go to the disk
// that stands in, and the origin is asked once for all of them.
func TestDeadDiskAndLock(t *testing.T) {
	t.Parallel()
	n := nginxtest.New(t)
	in := decode(t, []byte(threeDisks+"  cache: {lock: {timeout: 20s}}\n"))
	config, err := cache.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	n.Configure(config.Text, "disk1", "disk2", "disk3")
	mount := n.Root + layout.DiskDir("disk2")
	xfs.Mount(t, mount)
	n.Disk("disk2")
	const clients = 20
	var asked atomic.Int64
	held := make(chan chan struct{}, 2*clients) // the test closes a channel from here to let the origin answer
	n.Serve("127.0.0.1:9000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer := make(chan struct{})
		held <- answer
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "slow")
	}))
	n.Start()
	tree := config.Plan.Tree()
	path := ""
	for i := 0; tree.Owner([]byte("http://www.example.com"+path)) != "disk2"; i++ {
		path = fmt.Sprintf("/slow/%d", i)
	}
	fetchAll := func() (outcomes chan error) {
		outcomes = make(chan error, clients)
		for range clients {
			go func() {
				status, err := fetchStatus(n.Client(), path)
				if err == nil && status != http.StatusOK {
					t.Errorf("status %d", status)
				}
				outcomes <- err
			}()
		}
		return outcomes
	}
	before, _ := requestsOf(t, n)
	outcomes := fetchAll()
	first := <-held
	had(t, n, before, 2*clients) // each client's request and its request to the gateway; both wait
	xfs.Shutdown(t, mount)
	close(first)
	second := <-held // the request that gets the lock after the first one
	var free []chan struct{}
	for range clients - 2 { // the requests that have waited for the lock until its timeout
		free = append(free, <-held)
	}
	close(second)
	for _, answer := range free {
		close(answer)
	}
	broken := 0
	for range clients {
		if err := <-outcomes; err != nil {
			broken++
		}
	}
	if broken != 2 || asked.Load() != clients {
		t.Errorf("%d of %d broke off, and the origin was asked %d times; want the two that had the lock, and %d",
			broken, clients, asked.Load(), clients)
	}
	outcomes = fetchAll() // now another disk stands in, with its own lock
	answer := <-held
	occupied(t, n, clients)
	close(answer)
	for range clients {
		if err := <-outcomes; err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
	if got := asked.Load() - clients; got != 1 {
		t.Errorf("the origin was asked %d times for what %d clients want, want once", got, clients)
	}
}

// fetchStatus fetches a path and returns the status. It returns an error if the response is not complete.
func fetchStatus(client *http.Client, path string) (status int, err error) {
	request, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	if err != nil {
		return 0, err
	}
	request.Host = "www.example.com"
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}
