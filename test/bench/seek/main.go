// Command seek shows the files of a folder in another folder, by FUSE. Reads and writes of the shown files take as long
// as on a hard disk. Each access takes some time for each byte. If it does not begin where the last access ended, it
// also takes the time of a seek. The kernel's own throttle (blkio) cannot replace this command: under blkio, a large
// read costs as little as a small read, and writes cost nothing.
//
//	seek -dir DIR -mount DIR
//
// Each line of standard input sets the speed of one file. It contains the name of the file, the time of a seek and
// the number of bytes a second, such as "disk1 8ms 150e6". A file without such a line, or with "0s 0", has full
// speed. At the end of standard input, the command unmounts the folder.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"k8s.io/utils/clock"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("seek: ")
	dir := flag.String("dir", "", "the folder with the files")
	mount := flag.String("mount", "", "the folder in which they are shown")
	flag.Parse()
	if err := run(*dir, *mount, os.Stdin, clock.RealClock{}); err != nil {
		log.Fatal(err)
	}
}

// run shows the files of dir in the folder mount. It reads speeds from commands until the end of commands. clock is the
// clock with which reads and writes wait.
func run(dir, mount string, commands io.Reader, clock clock.Clock) error {
	all := spindles{clock: clock}
	loopback, err := fs.NewLoopbackRoot(dir)
	if err != nil {
		return err
	}
	server, err := fs.Mount(mount, &node{loopback.(*fs.LoopbackNode), &all}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, MaxWrite: 1 << 20, Name: "seek", FsName: dir},
	})
	if err != nil {
		return err
	}
	scanner := bufio.NewScanner(commands)
	for scanner.Scan() {
		var name, seek string
		var perSecond float64
		if _, err := fmt.Sscan(scanner.Text(), &name, &seek, &perSecond); err != nil {
			return fmt.Errorf("%q: want NAME SEEK BYTES: %w", scanner.Text(), err)
		}
		cost, err := time.ParseDuration(seek)
		if err != nil {
			return err
		}
		all.of(name).set(cost, perSecond)
	}
	return server.Unmount()
}

// spindles contains the spindle of each file, by the name of the file.
type spindles struct {
	clock  clock.Clock
	byName sync.Map
}

func (s *spindles) of(name string) *spindle {
	found, _ := s.byName.LoadOrStore(name, &spindle{clock: s.clock})
	return found.(*spindle)
}

// node is the folder, or a file in it. The reads and writes of a file wait for the file's spindle.
type node struct {
	*fs.LoopbackNode
	spindles *spindles
}

// WrapChild returns a node for a file in the folder. The FUSE library calls it.
func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &node{child.(*fs.LoopbackNode), n.spindles}
}

// Open opens a file without the kernel's page cache, so that each access to the file calls Read or Write.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	handle, _, errno := n.LoopbackNode.Open(ctx, flags&^syscall.O_DIRECT)
	if errno != 0 {
		return nil, 0, errno
	}
	spindle := n.spindles.of(filepath.Base(n.Path(nil)))
	return &slow{handle.(*fs.LoopbackFile), spindle}, fuse.FOPEN_DIRECT_IO, 0
}

// slow is an open file.
type slow struct {
	*fs.LoopbackFile
	spindle *spindle
}

// Read waits as long as the simulated disk takes, and then reads.
func (f *slow) Read(ctx context.Context, buffer []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	f.spindle.access(offset, len(buffer))
	return f.LoopbackFile.Read(ctx, buffer, offset)
}

// Write waits as long as the simulated disk takes, and then writes.
func (f *slow) Write(ctx context.Context, data []byte, offset int64) (uint32, syscall.Errno) {
	f.spindle.access(offset, len(data))
	return f.LoopbackFile.Write(ctx, data, offset)
}

// PassthroughFd prevents the kernel from reading the file directly, without a call of Read.
func (f *slow) PassthroughFd() (int, bool) { return 0, false }
