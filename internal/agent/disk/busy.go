package disk

import (
	"time"

	"github.com/prometheus/procfs/blockdevice"
	"golang.org/x/sys/unix"
)

// busyPatience is the longest time that a probe of a busy disk may take. If a probe takes longer, the disk counts as
// hanging.
const busyPatience = 30 * time.Second

// look contains the numbers of reads and writes that a device had completed at the time at.
type look struct {
	at            time.Time
	device        uint64
	reads, writes uint64
	// isKnown is false for a file system that is on no block device, such as NFS or btrfs.
	isKnown bool
}

// isBusy reports whether the device has completed enough operations between the looks l and now. rate is the minimum
// number of operations a second. A device that completes enough operations does not hang. While a probe reads, only
// reads count, because a disk may complete writes but no reads.
func (l look) isBusy(now look, reading bool, rate int) bool {
	if !l.isKnown || !now.isKnown || l.device != now.device || now.reads < l.reads || now.writes < l.writes {
		return false
	}
	done := now.reads - l.reads
	if !reading {
		done += now.writes - l.writes
	}
	return float64(done) >= float64(rate)*now.at.Sub(l.at).Seconds()
}

// lookAt reads the counts of a device in /proc/diskstats. It does not wait for the device.
func lookAt(device uint64) look {
	l := look{at: time.Now(), device: device}
	system, err := blockdevice.NewDefaultFS()
	if err != nil {
		return l
	}
	all, err := system.ProcDiskstats()
	if err != nil {
		return l
	}
	for _, d := range all {
		if d.MajorNumber == unix.Major(device) && d.MinorNumber == unix.Minor(device) {
			l.reads, l.writes, l.isKnown = d.ReadIOs, d.WriteIOs, true
		}
	}
	return l
}

// watch decides whether a disk hangs or is busy while a probe of the disk takes long.
type watch struct {
	begun time.Time
	last  look
	hung  bool
}

// hangs reports whether the disk hangs. The parameter now is the current look. The first look with counts does not
// change the result: later looks are compared with it. The parameter least is a minimum time. If less time has passed
// since the last look, the previous result stays, because the counts of a shorter time prove nothing.
func (w *watch) hangs(now look, reading bool, least time.Duration, rate int) bool {
	switch {
	case now.at.Sub(w.begun) >= busyPatience || !now.isKnown:
		w.hung = true
	case !w.last.isKnown:
		w.last = now
	case now.at.Sub(w.last.at) >= least:
		w.hung = !w.last.isBusy(now, reading, rate)
		w.last = now
	}
	return w.hung
}
