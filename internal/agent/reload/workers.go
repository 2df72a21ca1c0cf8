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

// exitGrace is the time that an old worker may take to end after worker_shutdown_timeout.
const exitGrace = time.Second

// An old worker counts as only waiting for a disk if two conditions hold. Every check during blockedTime finds the
// worker waiting, and the worker goes to sleep at most blockedSleeps times during blockedTime. A worker that is only
// busy goes to sleep more often.
const (
	blockedTime   = 5 * time.Second
	blockedSleeps = 100
)

// oldWorker is a worker that is shutting down, as KillStuck last saw it.
type oldWorker struct {
	// since is the time at which the worker was first seen.
	since time.Time
	// blocked is the time at which the worker began to do nothing but wait for a disk; zero if the worker does other
	// work. sleeps is the number of times that the worker had gone to sleep by that time.
	blocked time.Time
	sleeps  int64
}

// next returns the state of the worker after the next check. waits and sleeps are the findings of this check: whether
// the worker waits for a disk, and how often it has gone to sleep.
func (w oldWorker) next(now time.Time, waits bool, sleeps int64) oldWorker {
	switch {
	case !waits:
		w.blocked = time.Time{}
	case w.blocked.IsZero() || sleeps-w.sleeps > blockedSleeps:
		w.blocked, w.sleeps = now, sleeps
	}
	return w
}

// isStuck reports whether the worker must be killed. timeout is worker_shutdown_timeout.
func (w oldWorker) isStuck(now time.Time, timeout time.Duration) bool {
	return now.Sub(w.since) > timeout+exitGrace || !w.blocked.IsZero() && now.Sub(w.blocked) >= blockedTime
}

// KillStuck kills old workers and returns how many it has killed. It kills workers that have outlived
// worker_shutdown_timeout. If workers read files themselves (io.mode Workers), it also kills workers that only wait
// for a disk. nginx cannot close a connection whose read waits for a disk that hangs, so without KillStuck the
// client would wait as long as the disk hangs. A worker that reads files itself keeps all its clients waiting,
// including clients of other disks. KillStuck compares its findings about each worker with the findings of earlier
// calls, so the caller must call it again and again, normally every two seconds. The kernel ends a killed process
// only when the read of the process returns. If the device itself hangs, the read may never return.
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

// oldWorkers returns the workers of a master that finish their connections and accept no new ones. The process title of
// such a worker says that it is shutting down, once the worker has read the master's message. A worker that waits for a
// disk has not read the message, so workers from before the last reload count too.
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

// workers returns the workers of a master. The value is true for a worker whose process title says that it is
// shutting down.
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
