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

// exitGrace is how much longer than worker_shutdown_timeout an old worker may take to end.
const exitGrace = time.Second

// KillStuck kills old workers that have outlived worker_shutdown_timeout and returns how many it killed. nginx cannot
// close a connection whose read waits for a disk that hangs, so without KillStuck the client waits as long as the disk
// hangs. KillStuck remembers when it first saw each worker shut down, so the caller calls it every second or two.
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

// shuttingDown are the workers of a master that finish their connections and accept no more.
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
