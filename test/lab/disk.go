package lab

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Preparation is how a disk is formatted and mounted for a cache.
type Preparation struct {
	// FileSystem is xfs or ext4. MkfsArgs go to its mkfs, and Options to mount.
	FileSystem string
	MkfsArgs   []string
	Options    string
	// ReadAhead is the read-ahead of the block device, in KiB.
	ReadAhead int
}

// Usual is a disk that nobody has prepared, for objects of any size: blocks of 4 KiB and a read-ahead of 128 KiB.
func Usual(int64) Preparation { return Preparation{FileSystem: "xfs", ReadAhead: 128} }

// Prepared is what docs/howto/prepare-disks.md advises for objects of so many bytes: a large read-ahead and, if the
// objects are large and the kernel can mount them, large blocks. With its header, an object of 64 KiB takes three
// blocks of 32 KiB, which are one read.
func Prepared(object int64) Preparation {
	p := Preparation{FileSystem: "xfs", ReadAhead: 4096}
	block := 64 << 10
	switch {
	case object < 64<<10:
		return p
	case object < 256<<10:
		block = 32 << 10
	}
	var name unix.Utsname
	var major, minor int
	if err := unix.Uname(&name); err != nil {
		return p
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	if n == 2 && (major > 6 || major == 6 && minor >= 12) {
		p.MkfsArgs = []string{"-b", fmt.Sprintf("size=%d", block)}
	}
	return p
}

// Disk is a file system in a file, behind a loop device that does not use the page cache a second time.
type Disk struct {
	// Dir is where the disk is mounted. Device is its MAJOR:MINOR.
	Dir, Device string
}

// ErrMount means that the kernel cannot mount such a disk, for example one with blocks larger than a page before Linux
// 6.12.
var ErrMount = errors.New("mount")

// Disk creates and mounts a disk, which is removed when the lab closes.
func (l *Lab) Disk(name string, mebibytes int64, p Preparation) (Disk, error) {
	image, dir := filepath.Join(l.Dir, name+".xfs"), filepath.Join(l.Dir, name)
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return Disk{}, err
	}
	if err := errors.Join(os.Truncate(image, mebibytes<<20), os.Mkdir(dir, 0o755)); err != nil {
		return Disk{}, err
	}
	if err := run(append(append([]string{"mkfs." + p.FileSystem, "-q"}, p.MkfsArgs...), image)...); err != nil {
		return Disk{}, err
	}
	output, err := exec.Command("losetup", "--direct-io=on", "--find", "--show", image).Output()
	if err != nil {
		return Disk{}, fmt.Errorf("losetup: %w", err)
	}
	loop := strings.TrimSpace(string(output))
	l.cleanup(func() error { return run("losetup", "--detach", loop) })
	if err := run("blockdev", "--setra", strconv.Itoa(p.ReadAhead*2), loop); err != nil { // in sectors of 512 bytes
		return Disk{}, err
	}
	if err := run("mount", "-o", cmp.Or(p.Options, "defaults"), loop, dir); err != nil {
		return Disk{}, fmt.Errorf("%w: %w", ErrMount, err)
	}
	l.cleanup(func() error { return run("umount", dir) })
	var stat unix.Stat_t
	if err := unix.Stat(loop, &stat); err != nil {
		return Disk{}, err
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		return Disk{}, err
	}
	return Disk{Dir: dir, Device: fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev))}, nil
}

// DropCaches empties the page cache. Inodes and the file systems' own metadata stay.
func DropCaches() error {
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0o200)
}
