package lab

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Preparation describes how a disk is formatted and mounted for a cache.
type Preparation struct {
	// FileSystem is "xfs" or "ext4". MkfsArgs are additional arguments for mkfs, and Options are the options for mount.
	FileSystem string
	MkfsArgs   []string
	Options    string
	// ReadAhead is the read-ahead of the block device, in KiB.
	ReadAhead int
}

// Usual returns the settings of a disk that nobody has prepared, for objects of any size: blocks of 4 KiB and a
// read-ahead of 128 KiB.
func Usual(int64) Preparation { return Preparation{FileSystem: "xfs", ReadAhead: 128} }

// Prepared returns the settings that docs/howto/prepare-disks.md recommends for objects of the given size in bytes.
// These are a large read-ahead and, for large objects, large blocks, if the kernel supports them. An object of 64 KiB
// with its header takes three blocks of 32 KiB, which need only one read.
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
		p.MkfsArgs, p.Options = []string{"-b", fmt.Sprintf("size=%d", block)}, "noatime,allocsize=4k"
	}
	return p
}

// Disk is a file system in a file. It is mounted through a loop device that bypasses the page cache, so that no data is
// cached twice.
type Disk struct {
	// Dir is the folder on which the disk is mounted. Device is the number of the device, as MAJOR:MINOR.
	Dir, Device string
	// file is the name of the file that contains the disk. speeds receives the commands of test/bench/seek that set the
	// disk's speed; nil for a disk without seeks.
	file   string
	speeds io.Writer
}

// turn sets the speed of a disk with seeks. Without seeks, it returns an error if s contains a seek time.
func (d Disk) turn(s Speed) error {
	if d.speeds == nil {
		if s.Seek > 0 {
			return errors.New("disks have seeks only if the lab has")
		}
		return nil
	}
	bytes := s.Bytes
	if s.Seek == 0 {
		bytes = 0
	}
	_, err := fmt.Fprintf(d.speeds, "%s %s %d\n", d.file, s.Seek, bytes)
	return err
}

// InMemory sets the lab to keep in memory the files of all disks that it creates from now on. On the machine's own
// disk, reads of one file can be a thousand times slower than reads of another file. The reason may be that the
// machine's host has some files in memory. mebibytes is the size of all these disks together.
func (l *Lab) InMemory(mebibytes int64) error {
	free, err := freeMemory()
	if err != nil {
		return err
	}
	if free < mebibytes {
		return fmt.Errorf("disks in memory need %d MiB, and 4 GiB for everything else; %d MiB are free for them: "+
			"measure fewer servers", mebibytes, free)
	}
	dir := filepath.Join(l.Dir, "memory")
	if err := l.mountMemory(dir, mebibytes); err != nil {
		return err
	}
	l.files, l.inMemory = dir, true
	return nil
}

// freeMemory returns the memory in MiB that the files of disks may take. This is the available memory, minus 4 GiB
// for servers, clients and builds.
func freeMemory() (mebibytes int64, err error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	info, err := proc.Meminfo()
	if err != nil {
		return 0, err
	}
	return int64(*info.MemAvailableBytes)>>20 - 4096, nil
}

// unmount unmounts a folder. It does not wait for other mount namespaces, such as those of a cluster's nodes. Such a
// namespace keeps a copy of each mount that existed when the namespace was created.
func unmount(dir string) error { return run("umount", "--lazy", dir) }

// mountMemory creates the folder dir and mounts a file system in memory on it.
func (l *Lab) mountMemory(dir string, mebibytes int64) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := run("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", mebibytes), "tmpfs", dir); err != nil {
		return err
	}
	l.cleanup(func() error { return unmount(dir) })
	return nil
}

// Seek enables seek times for the disks that are created from now on. Reads and writes of such a disk take the time of
// a seek while the disk's speed contains a seek time. Otherwise, they take no extra time. The file of the disk is in
// memory, and takes as much memory as was written to it. program is the path of the program test/bench/seek.
func (l *Lab) Seek(program string) error {
	files, shown := filepath.Join(l.Dir, "files"), filepath.Join(l.Dir, "shown")
	free, err := freeMemory()
	if err != nil {
		return err
	}
	if err := l.mountMemory(files, free); err != nil {
		return err
	}
	marker := "ready"
	if err := errors.Join(os.Mkdir(shown, 0o700), os.WriteFile(filepath.Join(files, marker), nil, 0o600)); err != nil {
		return err
	}
	command := exec.Command(program, "-dir", files, "-mount", shown)
	command.Stderr = os.Stderr
	speeds, err := command.StdinPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	l.cleanup(func() error { return errors.Join(speeds.Close(), command.Wait()) })
	for range 100 {
		if _, err := os.Stat(filepath.Join(shown, marker)); err == nil {
			l.files, l.shown, l.speeds = files, shown, speeds
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New(program + " shows nothing")
}

// ErrMount means that the kernel cannot mount a disk with the given preparation. For example, before Linux 6.12, the
// kernel cannot mount a disk with blocks that are larger than a page.
var ErrMount = errors.New("mount")

// Disk creates and mounts a disk. The lab removes the disk when it closes.
func (l *Lab) Disk(name string, mebibytes int64, p Preparation) (Disk, error) {
	image, dir := filepath.Join(cmp.Or(l.files, l.Dir), name+".xfs"), filepath.Join(l.Dir, name)
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return Disk{}, err
	}
	if err := errors.Join(os.Truncate(image, mebibytes<<20), os.Mkdir(dir, 0o755)); err != nil {
		return Disk{}, err
	}
	if l.inMemory {
		// Take the memory for the whole file now. Otherwise, each write of a server would take memory from the server's own
		// limit.
		if err := run("fallocate", "--length", fmt.Sprint(mebibytes<<20), image); err != nil {
			return Disk{}, err
		}
	}
	if err := run(append(append([]string{"mkfs." + p.FileSystem, "-q"}, p.MkfsArgs...), image)...); err != nil {
		return Disk{}, err
	}
	if l.shown != "" {
		image = filepath.Join(l.shown, filepath.Base(image))
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
	l.cleanup(func() error { return unmount(dir) })
	var stat unix.Stat_t
	if err := unix.Stat(loop, &stat); err != nil {
		return Disk{}, err
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		return Disk{}, err
	}
	return Disk{
		Dir: dir, Device: fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev)),
		file: filepath.Base(image), speeds: l.speeds,
	}, nil
}

// Evict takes the disk's files out of the page cache, so that the next reads come from the disk. Unlike DropCaches, it
// leaves everything else on the machine in memory.
func (d Disk) Evict() error {
	root, err := os.Open(d.Dir)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(root.Fd())) // pages that are not written yet would stay in the page cache
	if err := errors.Join(err, root.Close()); err != nil {
		return err
	}
	return filepath.WalkDir(d.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED), file.Close())
	})
}

// DropCaches empties the page cache. Inodes and the file systems' own metadata stay.
func DropCaches() error { return drop("1") }

// DropAllCaches empties the page cache, and forgets inodes and directory entries.
func DropAllCaches() error { return drop("3") }

func drop(what string) error {
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte(what), 0o200)
}
