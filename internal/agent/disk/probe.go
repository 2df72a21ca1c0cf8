package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

const (
	// blockSize is a size in bytes that O_DIRECT accepts on every file system.
	blockSize = 4096
	// blocks is the number of blocks of the probe's file. The probe reads each block by a separate request, so that it
	// detects a disk that answers only one request a second.
	blocks    = 8
	probeFile = "probe"
	// markEvery is the number of good probes after which the mark is checked again.
	markEvery = 10
)

// Devices stores the device of each disk. It finds two disks on the same device without access to a disk, because a
// disk may hang. It is safe for concurrent use.
type Devices struct {
	mutex sync.Mutex
	of    map[string]uint64
}

// claim records a disk's device. It looks for other disks on the same device whose names sort before the name of this
// disk, and returns the first of these names; "" if there is none.
func (d *Devices) claim(disk string, device uint64) (other string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.of == nil {
		d.of = map[string]uint64{}
	}
	d.of[disk] = device
	for name, id := range d.of {
		if id == device && name < disk && (other == "" || name < other) {
			other = name
		}
	}
	return other
}

// Prober probes one disk. The result of each probe is a Sample. It is not safe for concurrent use.
type Prober struct {
	Disk string
	// Dir is the folder at which the disk is mounted.
	Dir string
	// NodeDir is a folder on the node's own file system.
	NodeDir string
	Devices *Devices
	Owner   Owner
	Rules

	// device is the device of Dir; 0 while it is not known. Later probers of the same disk share the field.
	device *atomic.Uint64

	round int
	block []byte
	// read is the median time of the reads of the last probe.
	read time.Duration
	// parent is the device of the folder above Dir, and node is the device of NodeDir. Both never change.
	parent, node uint64
	// ours is true if our mark was found recently.
	ours bool
	// clearing deletes the files of foreign caches.
	clearing *clearing
	// fileSystem contains the properties of the file system, as last read.
	fileSystem effective.FileSystem
}

// Rules decide which disks may be used.
type Rules struct {
	// Own requires a device that neither the node's own file system nor another disk uses. MountPoint requires that the
	// volume is the root of a file system, not a folder in one.
	Own, MountPoint bool
	// Empty allows the deletion of the cache of any other CacheNode. Abandoned names one CacheNode, as NAMESPACE/NAME,
	// whose cache may be deleted; "" for none.
	Empty     bool
	Abandoned string
}

// Probe checks that the disk is mounted and is ours, and reads its usage. It then reads all blocks of its file, calls
// hasRead, writes a block, syncs it and reads it back. Probe blocks while the disk hangs. If it starts the deletion
// of a foreign cache, the deletion runs in the background until the context ends.
func (p *Prober) Probe(ctx context.Context, hasRead func()) Sample {
	begun := time.Now()
	s := Sample{}
	p.read = 0
	err := p.probe(ctx, &s.Usage, hasRead)
	s.At, s.Read = time.Now(), p.read
	s.Latency = s.At.Sub(begun)
	if err != nil {
		s.Reason, s.Message = v1alpha1.DiskIOError, err.Error()
		if f, ok := errors.AsType[*finding](err); ok {
			s.Reason, s.ForeignOwner = f.reason, f.owner
		} else if errors.Is(err, syscall.EROFS) {
			s.Reason = v1alpha1.DiskReadOnly
		} else if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			s.Reason = v1alpha1.DiskFull
		}
	}
	return s
}

// finding is an error that contains the reason why the disk fails.
type finding struct {
	reason v1alpha1.DiskReason
	text   string
	// owner is the owner of the cache, for reason ForeignCache.
	owner string
}

func (f *finding) Error() string { return f.text }

func (p *Prober) probe(ctx context.Context, usage *Usage, hasRead func()) error {
	if err := p.checkDevice(); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(p.Dir, &fs); err != nil {
		return fmt.Errorf("statfs %s: %w", p.Dir, err)
	}
	*usage = Usage{
		Size: int64(fs.Blocks) * fs.Bsize, Free: int64(fs.Bavail) * fs.Bsize, //nolint:gosec // no file system has 8 EiB
		Inodes: fs.Files, FreeInodes: fs.Ffree,
	}
	if p.fileSystem == (effective.FileSystem{}) || p.round%markEvery == 0 {
		p.fileSystem, _ = readFileSystem(p.Dir) // for reports only: an error does not fail the disk
	}
	usage.FileSystem = p.fileSystem
	if fs.Flags&unix.ST_RDONLY != 0 {
		return &finding{reason: v1alpha1.DiskReadOnly, text: p.Dir + " is mounted read-only"}
	}
	folder := filepath.Join(p.Dir, layout.OwnFolder)
	if !p.ours || p.round%markEvery == 0 {
		p.ours = false
		if p.clearing == nil {
			p.clearing = newClearing()
		}
		if err := os.Mkdir(folder, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
			return explained(err, p.Dir)
		}
		if err := p.Owner.claim(ctx, folder, p.Rules, p.clearing); err != nil {
			return err
		}
	}
	err := p.readAndWrite(filepath.Join(folder, probeFile), hasRead)
	p.ours = err == nil
	return err
}

// explained adds the owner and mode of the volume to a permission error. Without these details, the error would look
// like an error of a broken disk.
func explained(err error, dir string) error {
	var stat unix.Stat_t
	if !errors.Is(err, os.ErrPermission) || unix.Stat(dir, &stat) != nil {
		return err
	}
	return fmt.Errorf("%w: the root of the volume is owned by %d:%d with mode %04o, and the pod runs as %d:%d; "+
		"give it to the pod's fsGroup with mode 2775",
		err, stat.Uid, stat.Gid, stat.Mode&0o7777, os.Geteuid(), os.Getegid())
}

// checkDevice returns an error for a volume that is not mounted or that violates the rules.
func (p *Prober) checkDevice() error {
	device, err := deviceOf(p.Dir)
	switch {
	case errors.Is(err, syscall.EIO):
		return &finding{
			reason: v1alpha1.DiskShutdown,
			text:   fmt.Sprintf("the file system at %s gives errors: %v", p.Dir, err),
		}
	case errors.Is(err, os.ErrNotExist):
		return &finding{reason: v1alpha1.DiskNotMounted, text: p.Dir + " does not exist"}
	case err != nil:
		return err
	}
	if p.device != nil {
		p.device.Store(device)
	}
	if p.MountPoint {
		if whole, err := IsWholeMount(p.Dir); err != nil || !whole {
			return &finding{
				reason: v1alpha1.DiskNotMounted,
				text: "the volume at " + p.Dir + " is a folder and no mount point: mount the disk on the node, " +
					"or set localPath.requireMountPoint to false",
			}
		}
	}
	if !p.Own {
		return nil
	}
	if p.parent == 0 { // not read yet: no device has the number 0
		p.parent, _ = deviceOf(filepath.Dir(p.Dir))
		p.node, _ = deviceOf(p.NodeDir)
	}
	if p.parent == device {
		return &finding{reason: v1alpha1.DiskNotMounted, text: "no volume is mounted at " + p.Dir}
	}
	if p.node == device {
		return &finding{
			reason: v1alpha1.DiskNodeDevice,
			text: "the volume at " + p.Dir + " is a folder on the node's own file system: mount a disk there, " +
				"or set health.device to Shared",
		}
	}
	if other := p.Devices.claim(p.Disk, device); other != "" {
		return &finding{
			reason: v1alpha1.DiskSharedDevice,
			text:   "is on the same device as " + other + ": use another disk, or set health.device to Shared",
		}
	}
	return nil
}

// deviceOf returns the device of a folder. It opens the folder, because a stat may be answered from memory when the
// file system is dead.
func deviceOf(dir string) (uint64, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return 0, &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	// A dead file system may still answer open and stat.
	if _, err := unix.Getdents(fd, make([]byte, blockSize)); err != nil {
		return 0, &os.PathError{Op: "readdir", Path: dir, Err: err}
	}
	return stat.Dev, nil
}

// readAndWrite reads the blocks, writes one block and reads it back. It bypasses the page cache if the file system
// supports that. The reads come first, because a write may have to wait for nginx's earlier writes.
func (p *Prober) readAndWrite(path string, hasRead func()) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_DIRECT, 0o600) //nolint:gosec // the path is ours
	if errors.Is(err, syscall.EINVAL) {
		file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the path is ours
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if p.block == nil {
		p.block = alignedBlock()
	}
	stat, err := file.Stat()
	if err != nil {
		return err
	}
	written := []int{p.round % blocks}
	if stat.Size() == blocks*blockSize {
		if err := p.timeReads(file); err != nil {
			return err
		}
	} else {
		written = []int{0, 1, 2, 3, 4, 5, 6, 7}
	}
	hasRead()
	return p.writeAndRead(file, written)
}

// timeReads reads all blocks, and stores the median time of a read.
func (p *Prober) timeReads(file *os.File) error {
	var times [blocks]time.Duration
	for i := range blocks {
		begun := time.Now()
		if _, err := file.ReadAt(p.block, int64(i)*blockSize); err != nil {
			return err
		}
		times[i] = time.Since(begun)
	}
	slices.Sort(times[:])
	p.read = times[blocks/2]
	return nil
}

func (p *Prober) writeAndRead(file *os.File, written []int) error {
	p.round++
	stamp := fmt.Appendf(nil, "%s %d %d ", p.Disk, p.round, time.Now().UnixNano())
	for _, i := range written {
		for n := 0; n < blockSize; {
			n += copy(p.block[n:], stamp)
		}
		if _, err := file.WriteAt(p.block, int64(i)*blockSize); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return err
	}
	for _, i := range written {
		clear(p.block)
		if _, err := file.ReadAt(p.block, int64(i)*blockSize); err != nil {
			return err
		}
		if !bytes.HasPrefix(p.block, stamp) {
			return &finding{reason: v1alpha1.DiskCorrupt, text: "the probe reads other bytes than it wrote"}
		}
	}
	return nil
}

// alignedBlock returns a block at an address that O_DIRECT accepts.
func alignedBlock() []byte {
	buffer := make([]byte, 2*blockSize)
	offset := int(uintptr(unsafe.Pointer(&buffer[0])) % blockSize) //nolint:gosec // the address is only read
	return buffer[blockSize-offset : 2*blockSize-offset]
}
