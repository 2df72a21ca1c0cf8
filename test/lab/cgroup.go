package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Speed limits the speed of a disk for a server; 0 means no limit.
type Speed struct {
	// Reads is the maximum number of reads per second, and Bytes is the maximum number of bytes read per second. Both are
	// set together. With only Reads, a large read would cost as little as a small read.
	Reads, Bytes int64
	// Seek is the time that each read and write takes in addition to the transfer of its bytes, as on a hard disk. It
	// requires a call of [Lab.Seek] before the disk is created, and must not be combined with Reads.
	Seek time.Duration
}

// String returns a description of the speed for tables.
func (s Speed) String() string {
	switch {
	case s.Seek > 0:
		return fmt.Sprintf("disks with seeks of %s and %d MB/s", s.Seek, s.Bytes/1e6)
	case s.Reads == 0:
		return "unlimited disks"
	}
	return fmt.Sprintf("disks of %d reads/s and %d MB/s", s.Reads, s.Bytes/1e6)
}

// Cgroup limits the memory and the processor time of a server, and the speed of its disks. It also counts the
// resources that the server uses. It works with both versions of cgroups.
type Cgroup struct {
	name    string
	unified bool
	disks   []Disk
}

const cgroupRoot = "/sys/fs/cgroup"

// Cgroup creates a cgroup with a memory limit in bytes, which includes the page cache.
func (l *Lab) Cgroup(name string, memory int64, disks []Disk) (*Cgroup, error) {
	c := &Cgroup{name: l.tag + "-" + name, disks: disks}
	if _, err := os.Stat(cgroupRoot + "/cgroup.controllers"); err == nil {
		c.unified = true
		if err := os.WriteFile(cgroupRoot+"/cgroup.subtree_control", []byte("+memory +io +cpu"), 0o600); err != nil {
			return nil, err
		}
	}
	for _, dir := range c.dirs() {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		l.cleanup(func() error { return removeCgroup(dir) })
	}
	limit := c.file("memory", "memory.limit_in_bytes", "memory.max")
	return c, os.WriteFile(limit, []byte(strconv.FormatInt(memory, 10)), 0o600)
}

// removeCgroup removes a cgroup. It waits until the last process has left the cgroup.
func removeCgroup(dir string) (err error) {
	for range 50 {
		if err = os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func (c *Cgroup) dirs() []string {
	if c.unified {
		return []string{filepath.Join(cgroupRoot, c.name)}
	}
	var dirs []string
	for _, controller := range []string{"memory", "blkio", "cpu", "cpuacct"} {
		dir := filepath.Join(cgroupRoot, controller)
		if mounted, err := filepath.EvalSymlinks(dir); err == nil { // cpu and cpuacct can be symbolic links to one folder
			dir = mounted
		}
		dirs = append(dirs, filepath.Join(dir, c.name))
	}
	return slices.Compact(dirs)
}

// file returns the path of a file of a controller. v1 and v2 are the names of the file in the two versions of
// cgroups.
func (c *Cgroup) file(controller, v1, v2 string) string {
	if c.unified {
		return filepath.Join(cgroupRoot, c.name, v2)
	}
	return filepath.Join(cgroupRoot, controller, c.name, v1)
}

// procs returns the paths of the cgroup's files cgroup.procs. A process that writes its id to these files joins the
// cgroup.
func (c *Cgroup) procs() []string {
	var files []string
	for _, dir := range c.dirs() {
		files = append(files, filepath.Join(dir, "cgroup.procs"))
	}
	return files
}

// Add adds a process to the cgroup.
func (c *Cgroup) Add(pid int) error {
	for _, file := range c.procs() {
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Throttle sets the speed of each disk. If s contains no limit for reads, Throttle sets a very high limit, because
// the kernel counts reads only while there is a limit.
func (c *Cgroup) Throttle(s Speed) error {
	for _, d := range c.disks {
		if err := d.turn(s); err != nil {
			return err
		}
	}
	if s.Reads == 0 {
		s = Speed{Reads: 1e7, Bytes: 1e12}
	}
	return c.limit(strconv.FormatInt(s.Reads, 10), strconv.FormatInt(s.Bytes, 10))
}

// Lift removes the limits of the cgroup. Reads that are waiting because of a limit then continue too.
func (c *Cgroup) Lift() error {
	if c.unified {
		return c.limit("max", "max")
	}
	return c.limit("0", "0")
}

func (c *Cgroup) limit(reads, bytes string) error {
	for _, d := range c.disks {
		if c.unified {
			line := fmt.Sprintf("%s riops=%s rbps=%s", d.Device, reads, bytes)
			if err := os.WriteFile(c.file("", "", "io.max"), []byte(line), 0o600); err != nil {
				return err
			}
			continue
		}
		for file, value := range map[string]string{
			"blkio.throttle.read_iops_device": reads,
			"blkio.throttle.read_bps_device":  bytes,
		} {
			if err := os.WriteFile(c.file("blkio", file, ""), []byte(d.Device+" "+value), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// cpuPeriod is the period of the processor quota. It is short, so that a server that has used its share of a period
// waits for only a few milliseconds.
const cpuPeriod = 10 * time.Millisecond

// LimitCPU limits the processor time that the cgroup gets: 0.5 means half of one processor.
func (c *Cgroup) LimitCPU(processors float64) error {
	period := cpuPeriod.Microseconds()
	quota := int64(processors * float64(period))
	if c.unified {
		return os.WriteFile(c.file("", "", "cpu.max"), fmt.Appendf(nil, "%d %d", quota, period), 0o600)
	}
	if err := os.WriteFile(c.file("cpu", "cpu.cfs_period_us", ""), fmt.Append(nil, period), 0o600); err != nil {
		return err
	}
	return os.WriteFile(c.file("cpu", "cpu.cfs_quota_us", ""), fmt.Append(nil, quota), 0o600)
}

// Use contains the resources that a cgroup has used so far.
type Use struct {
	// Reads is the number of reads from the disks by the cgroup. CPU is its processor time. Written is the number of bytes
	// that any process or the kernel wrote to the disks. The kernel must be included, because it writes most pages, some
	// time after the process has changed them.
	Reads, Written int64
	CPU            time.Duration
}

// Use returns the resources that the cgroup has used so far.
func (c *Cgroup) Use() (Use, error) {
	var use Use
	reads, err := os.ReadFile(c.file("blkio", "blkio.throttle.io_serviced", "io.stat"))
	if err != nil {
		return use, err
	}
	for _, d := range c.disks {
		use.Reads += readsOf(string(reads), d.Device)
		stat, err := os.ReadFile("/sys/dev/block/" + d.Device + "/stat")
		if err != nil {
			return use, err
		}
		written, err := writtenOf(string(stat))
		if err != nil {
			return use, err
		}
		use.Written += written
	}
	cpu, err := os.ReadFile(c.file("cpuacct", "cpuacct.usage", "cpu.stat"))
	if err != nil {
		return use, err
	}
	fields := strings.Fields(string(cpu))
	if c.unified {
		micros, err := strconv.ParseInt(fields[1], 10, 64) // usage_usec N
		use.CPU = time.Duration(micros) * time.Microsecond
		return use, err
	}
	nanos, err := strconv.ParseInt(fields[0], 10, 64)
	use.CPU = time.Duration(nanos)
	return use, err
}

// Killed returns the number of processes of the cgroup that the kernel has killed for lack of memory.
func (c *Cgroup) Killed() (int64, error) {
	text, err := os.ReadFile(c.file("memory", "memory.oom_control", "memory.events"))
	if err != nil {
		return 0, err
	}
	return killedOf(string(text))
}

// killedOf returns the number N of the line "oom_kill N" in text.
func killedOf(text string) (int64, error) {
	for line := range strings.Lines(text) {
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return strconv.ParseInt(number, 10, 64)
		}
	}
	return 0, errors.New("the kernel does not count the processes that it kills for want of memory")
}

// readsOf returns the number of reads from a device. text contains this number as "MAJ:MIN Read N" (version 1) or
// "MAJ:MIN ... rios=N ..." (version 2).
func readsOf(text, device string) (reads int64) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != device {
			continue
		}
		if fields[1] == "Read" {
			n, _ := strconv.ParseInt(fields[2], 10, 64)
			reads += n
		}
		for _, f := range fields {
			if number, ok := strings.CutPrefix(f, "rios="); ok {
				n, _ := strconv.ParseInt(number, 10, 64)
				reads += n
			}
		}
	}
	return reads
}

// writtenOf returns the number of bytes that were written to a device. stat is the content of the device's file stat
// in sysfs. Its seventh field counts the written sectors of 512 bytes (Documentation/block/stat.rst).
func writtenOf(stat string) (int64, error) {
	fields := strings.Fields(stat)
	if len(fields) < 7 {
		return 0, fmt.Errorf("%q: want at least seven fields", stat)
	}
	sectors, err := strconv.ParseInt(fields[6], 10, 64)
	return sectors * 512, err
}

// Memory returns how many bytes the cgroup uses at the moment, including the page cache.
func (c *Cgroup) Memory() (int64, error) {
	text, err := os.ReadFile(c.file("memory", "memory.usage_in_bytes", "memory.current"))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
