// Package disk decides for each disk of a pod whether it is healthy. A pure state machine takes samples (state.go), a
// probe produces them (probe.go), and a monitor connects the two (monitor.go).
//
// It may import the API, effective and layout. To add a reason why a disk fails, add the reason to the API, a sample
// with this reason to the prober, and a case to State.Next.
package disk

import (
	"fmt"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
)

// isCertain reports whether one sample with the reason is enough to fail a disk. The other reasons are errors that a
// single request may also meet on a healthy disk.
func isCertain(r v1alpha1.DiskReason) bool {
	return r != "" && r != v1alpha1.DiskIOError && r != v1alpha1.DiskCorrupt && r != v1alpha1.DiskSlow
}

// Usage describes how much of a file system is used.
type Usage struct {
	// Size and Free are in bytes. Free is the space that an unprivileged process may use.
	Size, Free int64
	// Inodes and FreeInodes are counts. Both are 0 on a file system without a fixed number of inodes.
	Inodes, FreeInodes uint64
	FileSystem         effective.FileSystem
}

// Sample is the result of a probe.
type Sample struct {
	At      time.Time
	Latency time.Duration
	// Read is the median time of the probe's reads; 0 if the probe did not read.
	Read    time.Duration
	Reason  v1alpha1.DiskReason
	Message string
	// Usage is the zero value if the probe ended before it read the usage.
	Usage Usage
	// ForeignOwner is the owner of the cache on the disk, for reason ForeignCache.
	ForeignOwner string
}

// Thresholds are the effective thresholds of spec.disks[].health.
type Thresholds struct {
	Interval, Timeout time.Duration
	// Failures is the number of consecutive failed samples after which a disk fails. Successes is the number of
	// consecutive good samples after which a failed disk is used again.
	Failures, Successes int
	// BusyRate is the smallest number of reads or writes a second that a busy disk completes. A disk that completes
	// fewer counts as hanging.
	BusyRate int
	// MinFree is the smallest allowed free space in bytes. MinFreeInodes is the smallest allowed share of free inodes in
	// percent. 0 switches a limit off.
	MinFree       int64
	MinFreeInodes int
}

// Limits returns the thresholds for a file system with the given size in bytes. size is 0 while the size is not
// known.
type Limits func(size int64) Thresholds

const (
	// flapTime is a period that begins when a disk returns to use. If the disk fails again within this period, its next
	// return takes longer.
	flapTime = 10 * time.Minute
	// maxFlaps limits the number of good probes that a disk needs for its return. The number doubles each time that the
	// disk fails within flapTime after its return, but at most maxFlaps times.
	maxFlaps = 6
	// confirmDelay is the delay before the next probe while a failure is not yet confirmed or refuted.
	confirmDelay = 100 * time.Millisecond

	// A disk makes reads wait if the median read of a probe takes slowRead or longer, as on a hard disk. It also makes
	// reads wait if the reads of a probe have not ended after lateRead. calm is how long after such a probe the disk
	// still counts as a disk that makes reads wait.
	slowRead = 10 * time.Millisecond
	lateRead = 250 * time.Millisecond
	calm     = 10 * time.Minute
)

// State contains what the agent knows about a disk. It is a value type: Next returns a new State.
type State struct {
	Status  v1alpha1.DiskState
	Reason  v1alpha1.DiskReason
	Message string
	// Since is the time at which Status last changed.
	Since time.Time
	// Usage is the latest known usage.
	Usage Usage
	// ForeignOwner is the owner of the cache on the disk, for reason ForeignCache.
	ForeignOwner string

	failures, successes, flaps int
	returned                   time.Time
	// waited is the last time at which a probe showed that the disk makes reads wait.
	waited time.Time
}

// Waits reports whether the disk makes reads wait, or did so in the last ten minutes.
func (s State) Waits(now time.Time) bool { return !s.waited.IsZero() && now.Sub(s.waited) < calm }

// Next returns the state after one more sample.
func (s State) Next(sample Sample, t Thresholds) State {
	if sample.Usage != (Usage{}) {
		s.Usage = sample.Usage
	}
	if sample.Read >= slowRead {
		s.waited = sample.At
	}
	s.ForeignOwner = sample.ForeignOwner
	reason, message := s.judge(sample, t)
	if reason == "" {
		return s.good(sample.At, t)
	}
	return s.bad(sample.At, reason, message, t)
}

// judge returns the reason and the message if a sample is bad. Both come from the sample itself, or from a threshold
// on free space or inodes that the sample violates. The reason is "" for a good sample. To come back, a failed disk
// needs 1.5 times the free space and the free inodes of the thresholds.
func (s State) judge(sample Sample, t Thresholds) (v1alpha1.DiskReason, string) {
	if sample.Reason != "" || sample.Usage == (Usage{}) {
		return sample.Reason, sample.Message
	}
	// minInodes is in thousandths, because 1.5 times the default of 1% is not a whole percentage.
	minFree, minInodes := t.MinFree, 10*uint64(max(t.MinFreeInodes, 0))
	if s.Status == v1alpha1.DiskFailed {
		minFree, minInodes = minFree+minFree/2, minInodes+minInodes/2
	}
	u := sample.Usage
	if u.Free < minFree {
		return v1alpha1.DiskFull, fmt.Sprintf("%d MiB are free, less than %d MiB", u.Free>>20, minFree>>20)
	}
	if u.Inodes > 0 && u.FreeInodes*1000 < u.Inodes*minInodes {
		return v1alpha1.DiskNoInodes,
			fmt.Sprintf("%d of %d inodes are free, less than %g%%", u.FreeInodes, u.Inodes, float64(minInodes)/10)
	}
	return "", ""
}

func (s State) good(at time.Time, t Thresholds) State {
	s.failures = 0
	if s.Status == v1alpha1.DiskHealthy {
		return s
	}
	if s.Status == v1alpha1.DiskFailed {
		s.successes++
		if s.successes < s.needed(t) {
			s.Message = fmt.Sprintf("passed the last probe: it is used again after %d in a row", s.needed(t))
			return s
		}
		s.returned = at
	}
	s.Status, s.Reason, s.Message, s.Since = v1alpha1.DiskHealthy, "", "", at
	return s
}

func (s State) bad(at time.Time, reason v1alpha1.DiskReason, message string, t Thresholds) State {
	recovering := s.successes > 0
	s.successes = 0
	s.failures++
	if s.Status == v1alpha1.DiskFailed {
		if s.Reason != reason || recovering { // otherwise the first message stays, as messages contain changing numbers
			s.Reason, s.Message = reason, message
		}
		return s
	}
	if s.Status == v1alpha1.DiskHealthy && !isCertain(reason) && s.failures < t.Failures {
		return s
	}
	if !s.returned.IsZero() && at.Sub(s.returned) < flapTime {
		s.flaps = min(s.flaps+1, maxFlaps)
	} else {
		s.flaps = 0
	}
	s.Status, s.Reason, s.Message, s.Since = v1alpha1.DiskFailed, reason, message, at
	return s
}

// needed returns how many consecutive good probes bring the disk back.
func (s State) needed(t Thresholds) int { return t.Successes << s.flaps }

// Delay returns the time between the end of a probe and the begin of the next probe.
func (s State) Delay(t Thresholds) time.Duration {
	if s.Status == v1alpha1.DiskHealthy && s.failures > 0 {
		return confirmDelay
	}
	return t.Interval
}
