package disk

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// isWholeMount tells whether what is mounted at a folder is a file system from its root, and not a folder of one, as when a
// disk is missing and the volume is a folder of the node's root file system. The kernel says so in the fourth field of
// /proc/self/mountinfo (proc_pid_mountinfo(5)). Where several mounts lie on one another, the last counts.
func isWholeMount(mountinfo, dir string) (bool, error) {
	file, err := os.Open(mountinfo) //nolint:gosec // the path is ours
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	root := ""
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		fields := strings.Fields(scanner.Text())
		if len(fields) > 4 && unescape(fields[4]) == dir {
			root = fields[3]
		}
	}
	if root == "" {
		return false, fmt.Errorf("nothing is mounted at %s", dir)
	}
	return root == "/", nil
}

// unescape undoes the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// IsWholeMount looks at this process's own mounts.
func IsWholeMount(dir string) (bool, error) { return isWholeMount("/proc/self/mountinfo", dir) }
