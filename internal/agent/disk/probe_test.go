package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/await"
	"github.com/cachenode/cachenode-operator/test/xfs"
)

var owner = Owner{Namespace: "default", Name: "edge"}

// prober returns a prober of a real disk, which is mounted at a new folder.
func prober(t *testing.T) *Prober {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk1")
	xfs.Mount(t, dir)
	return &Prober{
		Disk: "disk1", Dir: dir, NodeDir: t.TempDir(), Devices: &Devices{},
		Owner: owner, Rules: Rules{Own: true, MountPoint: true},
	}
}

// again returns a new prober of the same disk, without the state of the prober p.
func again(p *Prober) *Prober {
	return &Prober{Disk: p.Disk, Dir: p.Dir, NodeDir: p.NodeDir, Devices: p.Devices, Owner: p.Owner, Rules: p.Rules}
}

// expect runs a probe and checks the reason in its result; "" for a good probe.
func expect(t *testing.T, p *Prober, want v1alpha1.DiskReason) Sample {
	t.Helper()
	s := p.Probe(t.Context(), func() {})
	if s.Reason != want {
		t.Errorf("the probe says %q (%s), want %q", s.Reason, s.Message, want)
	}
	return s
}

// TestTheErrorNamesTheVolumesOwner checks that the error for a volume that the pod may not write to names the volume's
// owner.
func TestTheErrorNamesTheVolumesOwner(t *testing.T) {
	p := prober(t)
	chattr := func(change string) {
		t.Helper()
		if out, err := exec.Command("xfs_io", "-c", "chattr "+change, p.Dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	chattr("+i") // without this attribute, root may write anywhere
	t.Cleanup(func() { chattr("-i") })
	want := "operation not permitted: the root of the volume is owned by 0:0 with mode 0755"
	if s := expect(t, p, v1alpha1.DiskIOError); !strings.Contains(s.Message, want) {
		t.Errorf("the probe says %q", s.Message)
	}
	chattr("-i")
	expect(t, p, "")
}

func TestProbe(t *testing.T) {
	p := prober(t)
	for range 2 * blocks {
		s := expect(t, p, "")
		if s.Usage.Size < 400<<20 || s.Usage.Free < 300<<20 || s.Usage.Inodes == 0 || s.Latency <= 0 {
			t.Errorf("the sample is %+v", s)
		}
		f := s.Usage.FileSystem
		if f.Type != "xfs" || f.BlockSize != 4096 || f.ReadAhead < 4096 || !strings.Contains(f.Options, "rw") {
			t.Errorf("the file system is %+v", f)
		}
	}
	t.Run("another's cache is left alone", func(t *testing.T) {
		stranger := again(p)
		stranger.Owner.Name = "other"
		cached := filepath.Join(p.Dir, layout.OwnFolder, cacheFolder, "file")
		must(t, os.MkdirAll(filepath.Dir(cached), 0o750))
		must(t, os.WriteFile(cached, nil, 0o600))
		if s := expect(t, stranger, v1alpha1.DiskForeignCache); !strings.Contains(s.Message, "default/edge") {
			t.Errorf("the message is %q", s.Message)
		}
		if _, err := os.Stat(cached); err != nil {
			t.Error(err)
		}
		expect(t, p, "") // the recreated CacheNode finds its cache again
	})
	t.Run("unless that is allowed", func(t *testing.T) {
		stranger := again(p)
		stranger.Owner.Name, stranger.Empty = "other", true
		beside := filepath.Join(p.Dir, "somebody-elses")
		must(t, os.WriteFile(beside, nil, 0o600))
		expect(t, stranger, "")
		await.True(t, "something is being deleted", func() bool { return !stranger.clearing.running.Load() })
		if _, err := os.Stat(filepath.Join(p.Dir, layout.OwnFolder, cacheFolder)); err == nil {
			t.Error("the cache is still there")
		}
		if _, err := os.Stat(beside); err != nil {
			t.Error(err)
		}
		seen := false
		for range markEvery { // the mark is not checked in each probe
			seen = seen || p.Probe(t.Context(), func() {}).Reason == v1alpha1.DiskForeignCache
		}
		if !seen {
			t.Error("another's mark was not seen")
		}
		must(t, os.RemoveAll(filepath.Join(p.Dir, layout.OwnFolder)))
		expect(t, p, "")
	})
	t.Run("or the one that it belonged to is gone", func(t *testing.T) {
		stranger := again(p)
		stranger.Owner.Name, stranger.Abandoned = "other", "default/another"
		if s := expect(t, stranger, v1alpha1.DiskForeignCache); s.ForeignOwner != "default/edge" {
			t.Errorf("the owner is %q", s.ForeignOwner)
		}
		stranger.Abandoned = "default/edge"
		expect(t, stranger, "")
		await.True(t, "something is being deleted", func() bool { return !stranger.clearing.running.Load() })
		must(t, os.RemoveAll(filepath.Join(p.Dir, layout.OwnFolder)))
		p = again(p)
		expect(t, p, "")
	})
	t.Run("read-only, and back", func(t *testing.T) {
		await.True(t, "something is being deleted", func() bool { return !p.clearing.running.Load() })
		xfs.Remount(t, p.Dir, "ro")
		expect(t, p, v1alpha1.DiskReadOnly)
		xfs.Remount(t, p.Dir, "rw")
		expect(t, p, "")
	})
	t.Run("full, and back", func(t *testing.T) {
		stranger := filepath.Join(p.Dir, "stranger")
		file, err := os.Create(stranger)
		must(t, err)
		must(t, file.Truncate(1))
		for size := int64(256 << 20); size >= 4096; { // fill the whole disk
			info, err := file.Stat()
			must(t, err)
			if unix.Fallocate(int(file.Fd()), 0, info.Size(), size) != nil {
				size /= 2
			}
		}
		must(t, file.Close())
		must(t, os.Remove(filepath.Join(p.Dir, layout.OwnFolder, probeFile))) // existing blocks need no space
		if s := p.Probe(t.Context(), func() {}); s.Reason != "" && s.Reason != v1alpha1.DiskFull {
			t.Errorf("the probe says %q (%s)", s.Reason, s.Message)
		} else if after := (State{Status: v1alpha1.DiskHealthy}).Next(s, limits); after.Reason != v1alpha1.DiskFull {
			t.Errorf("the state is %s for %q with %d bytes free", after.Status, after.Reason, s.Usage.Free)
		}
		must(t, os.Remove(stranger))
		expect(t, p, "")
	})
	t.Run("damaged mark", func(t *testing.T) {
		must(t, os.WriteFile(filepath.Join(p.Dir, layout.OwnFolder, ownerFile), []byte("{"), 0o600))
		expect(t, again(p), v1alpha1.DiskForeignCache)
		must(t, os.Remove(filepath.Join(p.Dir, layout.OwnFolder, ownerFile)))
	})
	t.Run("dead", func(t *testing.T) {
		xfs.Shutdown(t, p.Dir)
		expect(t, p, v1alpha1.DiskShutdown)
	})
}

func TestDevices(t *testing.T) {
	p := prober(t)
	second := again(p)
	second.Disk = "disk2"
	expect(t, p, "")
	if s := expect(t, second, v1alpha1.DiskSharedDevice); !strings.Contains(s.Message, "disk1") {
		t.Errorf("the message is %q", s.Message)
	}
	second.Own = false
	expect(t, second, "")

	folder := again(p)
	folder.Disk, folder.Dir = "disk3", filepath.Join(p.Dir, "folder")
	must(t, os.Mkdir(folder.Dir, 0o750))
	expect(t, folder, v1alpha1.DiskNotMounted) // on the same device as its parent
	folder.Dir = filepath.Join(p.Dir, "nowhere")
	expect(t, folder, v1alpha1.DiskNotMounted)

	bound := again(p) // a bind mount of a folder, as the kubelet makes it
	bound.Disk, bound.Dir = "disk4", t.TempDir()
	must(t, unix.Mount(folder.Dir[:len(folder.Dir)-len("nowhere")]+"folder", bound.Dir, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(bound.Dir, 0)) })
	if s := expect(t, bound, v1alpha1.DiskNotMounted); !strings.Contains(s.Message, "requireMountPoint") {
		t.Errorf("the message is %q", s.Message)
	}
	bound.MountPoint, bound.Own = false, false
	expect(t, bound, "")

	node := again(p)
	node.NodeDir = p.Dir
	expect(t, node, v1alpha1.DiskNodeDevice)
}

func TestTrim(t *testing.T) {
	p := prober(t)
	cache := filepath.Join(p.Dir, "cache", "a", "bc")
	must(t, os.MkdirAll(cache, 0o750))
	for _, name := range []string{"1", "2", "3", "4"} {
		must(t, os.WriteFile(filepath.Join(cache, name), make([]byte, 50<<20), 0o600))
	}
	before := expect(t, p, "").Usage.Free
	left := func() int {
		must(t, trim(t.Context(), filepath.Join(p.Dir, "cache"), before+70<<20))
		files, err := os.ReadDir(cache)
		must(t, err)
		return len(files)
	}
	n := 0
	await.True(t, "more than two files are left", func() bool { n = left(); return n <= 2 }) // a call has a time limit
	if n != 2 {
		t.Errorf("%d files are left, want 2: no more are deleted than needed", n)
	}
	must(t, trim(t.Context(), filepath.Join(p.Dir, "nowhere"), 1<<40))
}

// TestTrimEmptyFolders checks that trim finally reaches all files, even if a single call uses up its time in folders
// without files.
func TestTrimEmptyFolders(t *testing.T) {
	p := prober(t)
	cache := filepath.Join(p.Dir, "cache")
	for i := range 256 {
		must(t, os.MkdirAll(filepath.Join(cache, fmt.Sprintf("%x", i%16), fmt.Sprintf("%02x", i)), 0o750))
	}
	file := filepath.Join(cache, "f", "ff", "1")
	must(t, os.WriteFile(file, []byte("x"), 0o600))
	ended := make(chan struct{})
	close(ended)
	late := &trimming{missing: 1, ended: ended}
	entries, err := os.ReadDir(cache)
	must(t, err)
	if err := late.visit("0", entries[0], nil); !errors.Is(err, errEnough) {
		t.Errorf("after its time, a call goes on into a folder (%v)", err)
	}
	for range 100 {
		must(t, trim(t.Context(), cache, 1<<60))
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return
		}
	}
	t.Error("after 100 calls, the file is still there")
}

// TestProbeThatHangsFailsTheDisk checks a probe that hangs. Each time that the timeout passes, the same probe must
// count as another failure. When the probe has ended, the disk must become healthy again.
func TestProbeThatHangsFailsTheDisk(t *testing.T) {
	p := prober(t)
	must(t, os.Mkdir(filepath.Join(p.Dir, layout.OwnFolder), 0o750))
	// A pipe that nobody writes to replaces the mark: opening it hangs.
	pipe := filepath.Join(p.Dir, layout.OwnFolder, ownerFile)
	quick := Thresholds{
		Interval: 20 * time.Millisecond, Timeout: time.Second, BusyRate: 20, Failures: 2, Successes: 3,
	}
	m := NewMonitor(p, always(quick))
	var mutex sync.Mutex
	var seen []Sample
	m.Observed = func(s Sample) { mutex.Lock(); defer mutex.Unlock(); seen = append(seen, s) }
	ended := make(chan struct{})
	go func() { m.Run(t.Context()); close(ended) }()
	t.Cleanup(func() { <-ended })
	becomes := func(want v1alpha1.DiskState) {
		t.Helper()
		await.True(t, "the disk does not become "+string(want), func() bool { return m.State().Status == want })
	}
	becomes(v1alpha1.DiskHealthy)
	must(t, os.Remove(pipe))
	must(t, unix.Mkfifo(pipe, 0o600))
	// The test can open the pipe for writing as soon as a probe has opened it for reading. That probe then hangs until the
	// test closes the pipe.
	var writer *os.File
	await.Until(t, func() string {
		fd, err := unix.Open(pipe, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err.Error()
		}
		writer = os.NewFile(uintptr(fd), pipe)
		return ""
	})
	timeouts := func() int {
		mutex.Lock()
		defer mutex.Unlock()
		n := 0
		for _, s := range seen {
			if s.Reason == v1alpha1.DiskSlow {
				n++
			}
		}
		return n
	}
	before := timeouts() // on a busy machine, earlier probes may have taken too long too
	await.True(t, "the same probe does not fail again and again", func() bool { return timeouts() >= before+4 })
	if got := m.State(); got.Status != v1alpha1.DiskFailed || got.Reason != v1alpha1.DiskSlow {
		t.Errorf("it is %s for %q, want Failed for Slow", got.Status, got.Reason)
	}
	must(t, os.Rename(pipe, pipe+".old"))
	must(t, writer.Close())
	becomes(v1alpha1.DiskHealthy)
}

func TestMonitorStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	m := NewMonitor(prober(t), always(limits))
	go func() { m.Run(ctx); close(done) }()
	cancel()
	await.Receive(t, "the monitor does not end", done)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
