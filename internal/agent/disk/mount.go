package disk

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// mountAt is what is mounted at a folder, as this process sees it. Where several mounts lie on one another, the last counts.
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

// IsWholeMount tells whether what is mounted at a folder is a file system from its root, and not a folder of one, as when a
// disk is missing and the volume is a folder of the node's root file system.
func IsWholeMount(dir string) (bool, error) {
	mount, err := mountAt(dir)
	if err != nil {
		return false, err
	}
	return mount.Root == "/", nil
}

// readFileSystem looks at what is mounted at a folder: statfs, mountinfo, and the device's read-ahead in sysfs, all of which
// can be read in a pod.
func readFileSystem(dir string) (tuning.FileSystem, error) {
	mount, err := mountAt(dir)
	if err != nil {
		return tuning.FileSystem{}, err
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return tuning.FileSystem{}, err
	}
	f := tuning.FileSystem{Type: mount.FSType, BlockSize: stat.Bsize, Options: mount.Options}
	// A partition has no queue of its own; its device is the folder above.
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
