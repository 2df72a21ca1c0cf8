package podinfo

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// mostFiles is the largest number that OpenFiles returns: Linux does not allow a process to have more open files
// (fs.nr_open).
const mostFiles = 1 << 30

// OpenFiles returns the hard limit on open files of a process; 0 if the limit is not known. The process can raise its
// soft limit up to the hard limit. process is the folder of the process below /proc.
func OpenFiles(process string) int64 {
	text, err := os.ReadFile(filepath.Join(process, "limits")) //nolint:gosec // of the kernel
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		limits, ok := strings.CutPrefix(line, "Max open files ")
		if fields := strings.Fields(limits); ok && len(fields) > 1 {
			return filesOf(fields[1])
		}
	}
	return 0
}

// filesOf parses a limit. For any text that is not a number, such as "unlimited", it returns mostFiles.
func filesOf(limit string) int64 {
	number, err := strconv.ParseInt(limit, 10, 64)
	if err != nil {
		return mostFiles
	}
	return max(min(number, mostFiles), 0)
}
