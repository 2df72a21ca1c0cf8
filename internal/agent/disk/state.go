// Package disk judges the disks of a pod: a pure state machine over samples (state.go), a probe that takes the samples
// (probe.go), and a monitor that runs the one over the other (monitor.go), for each disk by itself.
package disk

import (
	"fmt"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// isCertain: one look is enough. The others are errors that a single request may meet on a disk that is well.
func isCertain(r v1alpha1.DiskReason) bool {
	return r != "" && r != v1alpha1.DiskIOError && r != v1alpha1.DiskCorrupt && r != v1alpha1.DiskSlow
}

// Usage is the state of a file system.
type Usage struct {
	// Size and Free are in bytes; Free is what an unprivileged process may take.
	Size, Free int64
	// Inodes and FreeInodes are counts; both are 0 on a file system that has no fixed number.
	Inodes, FreeInodes uint64
	FileSystem         tuning.FileSystem
}

// Sample is the outcome of a probe.
type Sample struct {
	At      time.Time
	Latency time.Duration
	Reason  v1alpha1.DiskReason
	Message string
	// Usage is the zero value where the probe did not come so far.
	Usage Usage
	// ForeignOwner is whose cache is on the disk, of ForeignCache.
	ForeignOwner string
}

// Thresholds are those of spec.disks[].health, in effect.
type Thresholds struct {
	Interval, Timeout time.Duration
	// Failures and Successes are how many samples in a row change the status.
	Failures, Successes int
	// MinFree is in bytes, MinFreeInodes in percent; 0 switches either off.
	MinFree       int64
	MinFreeInodes int
}

// Limits are the thresholds for a file system of a size in bytes; 0 while it is not known.
type Limits func(size int64) Thresholds

const (
	// flapTime: a disk that fails this soon after its return must prove itself longer.
	flapTime = 10 * time.Minute
	// maxFlaps bounds the doubling.
	maxFlaps = 6
	// confirmDelay is the time to the next probe while a failure is neither confirmed nor refuted.
	confirmDelay = 100 * time.Millisecond
)

// State is what is known of a disk. It is a value: Next makes a new one.
type State struct {
	Status  v1alpha1.DiskState
	Reason  v1alpha1.DiskReason
	Message string
	// Since is when Status came to be.
	Since time.Time
	// Usage is the latest that is known.
	Usage Usage
	// ForeignOwner is whose cache is on the disk, of ForeignCache.
	ForeignOwner string

	failures, successes, flaps int
	returned                   time.Time
}

// Next is the state after one more sample.
func (s State) Next(sample Sample, t Thresholds) State {
	if sample.Usage != (Usage{}) {
		s.Usage = sample.Usage
	}
	s.ForeignOwner = sample.ForeignOwner
	reason, message := s.judge(sample, t)
	if reason == "" {
		return s.good(sample.At, t)
	}
	return s.bad(sample.At, reason, message, t)
}

// judge adds the thresholds on space to what the probe says.
func (s State) judge(sample Sample, t Thresholds) (v1alpha1.DiskReason, string) {
	if sample.Reason != "" || sample.Usage == (Usage{}) {
		return sample.Reason, sample.Message
	}
	minFree, minInodes := t.MinFree, uint64(max(t.MinFreeInodes, 0))
	if s.Status == v1alpha1.DiskFailed {
		minFree, minInodes = minFree+minFree/2, minInodes+minInodes/2
	}
	u := sample.Usage
	if u.Free < minFree {
		return v1alpha1.DiskFull, fmt.Sprintf("%d MiB are free, less than %d MiB", u.Free>>20, minFree>>20)
	}
	if u.Inodes > 0 && u.FreeInodes*100 < u.Inodes*minInodes {
		return v1alpha1.DiskNoInodes, fmt.Sprintf("%d of %d inodes are free, less than %d%%", u.FreeInodes, u.Inodes, minInodes)
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
			return s
		}
		s.returned = at
	}
	s.Status, s.Reason, s.Message, s.Since = v1alpha1.DiskHealthy, "", "", at
	return s
}

func (s State) bad(at time.Time, reason v1alpha1.DiskReason, message string, t Thresholds) State {
	s.successes = 0
	s.failures++
	if s.Status == v1alpha1.DiskFailed {
		if s.Reason != reason { // otherwise the first message stands: one that counts would be news each time
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

// needed is how many good probes in a row bring the disk back.
func (s State) needed(t Thresholds) int { return t.Successes << s.flaps }

// Delay is the time from the end of a probe to the next one.
func (s State) Delay(t Thresholds) time.Duration {
	if s.Status == v1alpha1.DiskHealthy && s.failures > 0 {
		return confirmDelay
	}
	return t.Interval
}
