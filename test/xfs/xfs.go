// Package xfs creates real file systems for tests. Each file system is in a file, and is mounted through a loop
// device. The package needs Linux and root.
package xfs

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Mount creates a file system of 512 MiB, and mounts it on dir until the test ends.
func Mount(t *testing.T, dir string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk.xfs")
	for _, command := range [][]string{
		{"truncate", "-s", "512M", image},
		{"mkfs.xfs", "-q", image},
		{"mkdir", "-p", dir},
		{"mount", "-o", "loop", image, dir},
	} {
		run(t, command...)
	}
	t.Cleanup(func() {
		if output, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, output)
		}
	})
}

// Shutdown makes every operation on the file system fail from now on.
func Shutdown(t *testing.T, dir string) {
	t.Helper()
	run(t, "xfs_io", "-x", "-c", "shutdown", dir)
}

// Remount changes an option of the mount, such as ro or rw.
func Remount(t *testing.T, dir, option string) {
	t.Helper()
	run(t, "mount", "-o", "remount,"+option, dir)
}

func run(t *testing.T, command ...string) {
	t.Helper()
	if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, output)
	}
}
