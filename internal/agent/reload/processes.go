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

// Processes contains the start times of nginx's processes.
type Processes struct {
	// Boot is the time at which the machine was started, according to its present clock. Boot may be too early, but
	// never too late.
	Boot time.Time
	// Master is the time from Boot to the start of nginx's master. Oldest is the time from Boot to the start of the
	// oldest process that may still write to a cache. This is a current or old worker, or a process of another master
	// that has not ended yet. If there is no such process, Oldest equals Master.
	Master, Oldest time.Duration
}

// Processes returns the start times of nginx's present processes. ok is false if the master does not run.
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
		if err == nil && (!found || start < p.Oldest) { // an error means that the process has ended
			p.Oldest, found = start, true
		}
	}
	if !found {
		p.Oldest = p.Master
	}
	return p, true
}

// others returns the process IDs of nginx, except that of the given master. In a pod, all processes named nginx belong
// to the pod's nginx. In a test, several nginx can run. Only processes with the same root folder as the master then
// belong to the same nginx. A process whose root folder cannot be read is included.
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

// ticks is the unit in which the kernel gives the start of a process (USER_HZ). It is the same on all machines on which
// Go runs.
const ticks = time.Second / 100

// errEnded is the error for a zombie process: it has ended, and only waits until its parent has read its exit status.
var errEnded = errors.New("the process has ended")

// startOf returns the time from the boot to the start of a process.
func startOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStart(text)
}

// parseStart reads the start time of a process from the content of /proc/PID/stat. The second field is the name of
// the process in parentheses; the name may contain any character. A zombie process has ended only if it has no other
// thread: another thread may still be waiting for a disk.
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

// bootTime returns the time at which the machine was started, according to its present clock. If this process is
// delayed between the reads of two clocks, the result is too early, but never too late. If the result were too late,
// a file of a running nginx could count as older than nginx.
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
