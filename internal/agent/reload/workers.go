package reload

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// exitGrace is how much longer than worker_shutdown_timeout an old worker may take to end.
const exitGrace = time.Second

// An old worker does nothing but wait for a disk if every check for blockedTime finds it waiting, and if it goes to
// sleep at most blockedSleeps times meanwhile. A worker that is only busy sleeps more often.
const (
	blockedTime   = 5 * time.Second
	blockedSleeps = 100
)

// oldWorker is a worker that is shutting down, as KillStuck last saw it.
type oldWorker struct {
	// since is when it was first seen.
	since time.Time
	// blocked is since when it does nothing but wait for a disk; zero if it does not. sleeps is how often it had gone to
	// sleep by then.
	blocked time.Time
	sleeps  int64
}

// next returns the worker as the next check finds it: whether it waits for a disk, and how often it has gone to sleep.
func (w oldWorker) next(now time.Time, waits bool, sleeps int64) oldWorker {
	switch {
	case !waits:
		w.blocked = time.Time{}
	case w.blocked.IsZero() || sleeps-w.sleeps > blockedSleeps:
		w.blocked, w.sleeps = now, sleeps
	}
	return w
}

// isStuck reports whether the worker is to be killed. timeout is worker_shutdown_timeout.
func (w oldWorker) isStuck(now time.Time, timeout time.Duration) bool {
	return now.Sub(w.since) > timeout+exitGrace || !w.blocked.IsZero() && now.Sub(w.blocked) >= blockedTime
}

// KillStuck kills old workers and returns how many it killed: those that have outlived worker_shutdown_timeout and, if
// workers read for themselves (io.mode Workers), those that do nothing but wait for a disk. nginx cannot close a
// connection whose read waits for a disk that hangs, so without KillStuck the client waits as long as the disk hangs. A
// worker that reads for itself keeps all its clients waiting, those of other disks too. KillStuck remembers what it has
// seen of each worker, so the caller calls it every second or two. The kernel ends a process only when its read
// returns, which may be never if the device itself hangs.
func (n *Nginx) KillStuck(now time.Time, timeout time.Duration, readForThemselves bool) int {
	master, err := n.master()
	if err != nil {
		n.leaving = nil
		return 0
	}
	leaving, killed := map[int]oldWorker{}, 0
	for _, pid := range n.oldWorkers(master) {
		worker, known := n.leaving[pid]
		if !known {
			worker.since = now
		}
		waits, sleeps := sleepsOf(pid)
		worker = worker.next(now, waits && readForThemselves, sleeps)
		leaving[pid] = worker
		if worker.isStuck(now, timeout) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	n.leaving = leaving
	return killed
}

// sleepsOf reports whether the main thread of a process waits for a disk (state D), and how often it has gone to sleep.
func sleepsOf(pid int) (forDisk bool, sleeps int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, pid))
	if err != nil {
		return false, 0
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "State":
			forDisk = strings.HasPrefix(value, "D")
		case "voluntary_ctxt_switches":
			sleeps, _ = strconv.ParseInt(value, 10, 64) // the kernel writes a number
		}
	}
	return forDisk, sleeps
}

// oldWorkers returns the workers of a master that finish their connections and accept no more. A worker says so in its
// title once it has read the master's message, which one that waits for a disk has not. So those from before the last
// reload count too.
func (n *Nginx) oldWorkers(master int) []int {
	all := workers(master)
	n.replaced = slices.DeleteFunc(n.replaced, func(pid int) bool {
		_, alive := all[pid]
		return !alive
	})
	var pids []int
	for pid, isLeaving := range all {
		if isLeaving || slices.Contains(n.replaced, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// workers returns the workers of a master. The value is true for one that says in its title that it is shutting down.
func workers(master int) map[int]bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", master, master))
	if err != nil {
		return nil
	}
	pids := map[int]bool{}
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			continue
		}
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.HasPrefix(title, []byte("nginx: worker process")) {
			pids[pid] = bytes.HasPrefix(title, []byte("nginx: worker process is shutting down"))
		}
	}
	return pids
}
