package reload

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// exitGrace is how long after worker_shutdown_timeout an old worker may still take to end.
const exitGrace = time.Second

// KillStuck ends old workers that have outlived worker_shutdown_timeout: nginx cannot close a connection whose read waits
// for a disk that hangs, so without this the client waits as long as the disk does. It remembers since when each worker is
// shutting down, and is to be called every second or so. It returns how many it ended.
func (n *Nginx) KillStuck(now time.Time, timeout time.Duration) int {
	master, err := n.master()
	if err != nil {
		n.leaving = nil
		return 0
	}
	leaving, killed := map[int]time.Time{}, 0
	for _, pid := range shuttingDown(master) {
		since, known := n.leaving[pid]
		if !known {
			since = now
		}
		leaving[pid] = since
		if now.Sub(since) > timeout+exitGrace && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	n.leaving = leaving
	return killed
}

// shuttingDown are the children of a master that serve what they have and take no more.
func shuttingDown(master int) []int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", master, master))
	if err != nil {
		return nil
	}
	var pids []int
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			continue
		}
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.HasPrefix(title, []byte("nginx: worker process is shutting down")) {
			pids = append(pids, pid)
		}
	}
	return pids
}
