package disk

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/internal/effective"
)

// mountAt returns the mount at a folder, as this process sees it. If there are several mounts, it returns the last
// one, which covers the others.
func mountAt(dir string) (*mountinfo.Info, error) {
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return m.Mountpoint != dir, false })
	if err != nil {
		return nil, err
	}
	if len(mounts) == 0 {
		return nil, fmt.Errorf("nothing is mounted at %s", dir)
	}
	return mounts[len(mounts)-1], nil
}

// IsWholeMount reports whether the mount at a folder is the root of a file system. It returns false, for example, if
// the disk is missing and the volume is therefore a folder of the node's root file system.
func IsWholeMount(dir string) (bool, error) {
	mount, err := mountAt(dir)
	if err != nil {
		return false, err
	}
	return mount.Root == "/", nil
}

// readFileSystem reads the properties of the file system at a folder from statfs, mountinfo, and the device's
// read-ahead in sysfs. A pod can read all three sources.
func readFileSystem(dir string) (effective.FileSystem, error) {
	mount, err := mountAt(dir)
	if err != nil {
		return effective.FileSystem{}, err
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return effective.FileSystem{}, err
	}
	f := effective.FileSystem{Type: mount.FSType, BlockSize: stat.Bsize, Options: mount.Options}
	for option := range strings.SplitSeq(mount.VFSOptions, ",") {
		if strings.HasPrefix(option, "allocsize=") { // an option of the file system, not of the mount
			f.Options += "," + option
		}
	}
	// In sysfs, the folder of a partition is inside the folder of its device, and only the device's folder contains the
	// folder queue.
	for _, file := range []string{"queue/read_ahead_kb", "../queue/read_ahead_kb"} {
		text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/%s", mount.Major, mount.Minor, file))
		if err == nil {
			kibibytes, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			f.ReadAhead = kibibytes << 10
			break
		}
	}
	return f, nil
}
