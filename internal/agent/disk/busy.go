package disk

import (
	"time"

	"github.com/prometheus/procfs/blockdevice"
	"golang.org/x/sys/unix"
)

const (
	// busyRate is how many reads or writes a second a disk completes at least that is busy and does not hang. A hard disk
	// does about a hundred at random places.
	busyRate = 20
	// busyPatience is how long a probe of a busy disk may take. Something else is wrong then.
	busyPatience = 30 * time.Second
)

// look is how many reads and writes a device had completed at a moment.
type look struct {
	at            time.Time
	reads, writes uint64
	// isKnown is false for a file system that is on no block device, such as NFS or btrfs.
	isKnown bool
}

// isBusy reports whether the device has done so much since the look that it does not hang. While a probe reads, only
// reads count, because a disk may write well and not read.
func (l look) isBusy(now look, reading bool) bool {
	if !l.isKnown || !now.isKnown {
		return false
	}
	done := now.reads - l.reads
	if !reading {
		done += now.writes - l.writes
	}
	return float64(done) >= busyRate*now.at.Sub(l.at).Seconds()
}

// lookAt reads the counts of a device in /proc/diskstats. It does not wait for the device.
func lookAt(device uint64) look {
	l := look{at: time.Now()}
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
