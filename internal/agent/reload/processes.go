package reload

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Processes says when nginx's processes started.
type Processes struct {
	// Boot is when the machine was started, by its clock of now, or some time before.
	Boot time.Time
	// Master is how long after Boot nginx's master started. Oldest is how long after Boot the oldest process did that may
	// still write to a cache: a worker, an old one too, or a process of another master that has not ended yet. Without
	// any, it is the master's.
	Master, Oldest time.Duration
}

// Processes returns nginx's processes at the moment. ok is false if the master does not run.
func (n *Nginx) Processes() (p Processes, ok bool) {
	master, err := n.master()
	if err != nil {
		return p, false
	}
	if p.Boot, err = bootTime(); err != nil {
		return p, false
	}
	if p.Master, err = startOf(master); err != nil {
		return p, false
	}
	found := false
	for _, pid := range others(master) {
		start, err := startOf(pid)
		if err == nil && (!found || start < p.Oldest) { // with an error, it has ended
			p.Oldest, found = start, true
		}
	}
	if !found {
		p.Oldest = p.Master
	}
	return p, true
}

// others returns the processes of nginx except a master. In a pod, all processes named nginx are the pod's. In a test,
// those with the same root folder are. A process whose root folder cannot be read counts.
func others(master int) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	root, rootErr := os.Readlink(fmt.Sprintf("/proc/%d/root", master))
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || pid == master {
			continue
		}
		name, err := os.ReadFile(filepath.Join(folder, "comm")) //nolint:gosec // of the kernel
		if err != nil || string(bytes.TrimSpace(name)) != "nginx" {
			continue
		}
		if other, err := os.Readlink(filepath.Join(folder, "root")); err == nil && rootErr == nil && other != root {
			continue
		}
		pids = append(pids, pid)
	}
	return pids
}

// ticks is the kernel's unit for the start of a process (USER_HZ), which is the same on all machines that Go runs on.
const ticks = time.Second / 100

// errEnded is the error for a process that only waits for its parent to take note of its end.
var errEnded = errors.New("the process has ended")

// startOf returns how long after the boot a process started.
func startOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStart(text)
}

// parseStart reads when a process started from /proc/PID/stat. The second field is the process's name in parentheses,
// which may have anything in it. A process whose first thread has ended runs as long as another thread does, which may
// wait for a disk.
func parseStart(stat []byte) (time.Duration, error) {
	const state, threads, start = 3, 20, 22
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= start-state {
		return 0, fmt.Errorf("%q has no start of the process", stat)
	}
	if string(fields[0]) == "Z" && string(fields[threads-state]) == "1" {
		return 0, errEnded
	}
	count, err := strconv.ParseInt(string(fields[start-state]), 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(count) * ticks, nil
}

// bootTime returns when the machine was started, by its clock of now. If this process is held up between its two
// clocks, the time is too early, never too late: a file of a running nginx must not count as older than nginx.
func bootTime() (time.Time, error) {
	now := time.Now()
	since, err := sinceBoot()
	return now.Add(-since), err
}

// sinceBoot returns how long ago the machine was started.
func sinceBoot() (time.Duration, error) {
	var since unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &since)
	return time.Duration(since.Nano()), err
}
