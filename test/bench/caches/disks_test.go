package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/test/lab"
)

const smallest = 320 // in MiB; XFS takes no less than 300

func newLab(t *testing.T) *lab.Lab {
	l, err := lab.New("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestDisksInMemory checks that a disk in memory gets all its memory from the start. So the data that a server writes
// to the disk takes no memory from the server itself.
func TestDisksInMemory(t *testing.T) {
	l := newLab(t)
	if err := l.InMemory(smallest); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Disk("disk", smallest, lab.Usual(0)); err != nil {
		t.Fatal(err)
	}
	var files unix.Statfs_t
	if err := unix.Statfs(filepath.Join(l.Dir, "memory"), &files); err != nil {
		t.Fatal(err)
	}
	if files.Type != unix.TMPFS_MAGIC || files.Bfree != 0 {
		t.Errorf("file system %#x with %d free blocks, want a full tmpfs", files.Type, files.Bfree)
	}
	if err := l.InMemory(1 << 30); err == nil {
		t.Error("a pebibyte of memory was promised")
	}
}

// TestDisksThatSeek checks that a read from a disk with a limited speed takes the time of a seek.
func TestDisksThatSeek(t *testing.T) {
	if os.Getenv("CACHENODE_TEST_LONG") == "" {
		t.Skip("it judges how long a read takes: " +
			"CACHENODE_TEST_LONG=1 go -C test/bench test -run TestDisksThatSeek ./caches")
	}
	l := newLab(t)
	program := filepath.Join(l.Dir, "seek")
	if output, err := exec.Command("go", "build", "-o", program, "../seek").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	if err := l.Seek(program); err != nil {
		t.Fatal(err)
	}
	disk, err := l.Disk("disk", smallest, lab.Usual(0))
	if err != nil {
		t.Fatal(err)
	}
	cgroup, err := l.Cgroup("disk", 100<<20, []lab.Disk{disk})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(disk.Dir, "object")
	if err := os.WriteFile(file, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cgroup.Throttle(lab.Speed{Seek: 200 * time.Millisecond, Bytes: 1e9}); err != nil {
		t.Fatal(err)
	}
	var waited time.Duration
	for end := time.Now().Add(10 * time.Second); waited < 200*time.Millisecond; { // until seek uses the new speed
		if time.Now().After(end) {
			t.Fatalf("a read took %s, want a seek of 200 ms", waited)
		}
		if err := disk.Evict(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		waited = time.Since(begun)
	}
	if err := cgroup.Throttle(lab.Speed{}); err != nil { // otherwise, the end of the test would wait for seeks
		t.Fatal(err)
	}
}
