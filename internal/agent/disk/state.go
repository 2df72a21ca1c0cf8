// Package disk judges the disks of a pod: a pure state machine over samples (state.go), a probe that takes the samples
// (probe.go), and a monitor that runs the one over the other (monitor.go), for each disk by itself.
package disk

import (
	"fmt"
	"time"
)

// Status is whether a disk can be used.
type Status string

// The statuses of a disk.
const (
	// Starting: no probe has ended or run out of time yet.
	Starting Status = "Starting"
	// Healthy: nginx uses the disk.
	Healthy Status = "Healthy"
	// Failed: its keys are on the other disks.
	Failed Status = "Failed"
)

// Reason is why a probe failed; "" for one that did not.
type Reason string

// The reasons for which probes fail.
const (
	// IOError: a read, write or sync returned an error.
	IOError Reason = "IOError"
	// Corrupt: what was read is not what was written.
	Corrupt Reason = "Corrupt"
	// Slow: the probe took longer than its timeout, or has no end yet.
	Slow Reason = "Slow"
	// Shutdown: the file system itself gives errors. It stays so as long as anything has it mounted: once it is
	// repaired, the pod must go before it can come back.
	Shutdown Reason = "Shutdown"
	// ReadOnly: the file system is mounted read-only.
	ReadOnly Reason = "ReadOnly"
	// Full: less space is free than the threshold.
	Full Reason = "Full"
	// NoInodes: fewer inodes are free than the threshold.
	NoInodes Reason = "NoInodes"
	// NotMounted: no volume is mounted where the disk should be.
	NotMounted Reason = "NotMounted"
	// NodeDevice: the disk is a folder on the node's own file system, which a cache would fill.
	NodeDevice Reason = "NodeDevice"
	// SharedDevice: another disk of this pod is on the same device.
	SharedDevice Reason = "SharedDevice"
	// ForeignCache: the disk holds the cache of another CacheNode.
	ForeignCache Reason = "ForeignCache"
)

// isCertain: one look is enough. The others are errors that a single request may meet on a disk that is well.
func (r Reason) isCertain() bool {
	return r != "" && r != IOError && r != Corrupt && r != Slow
}

// NeedsNewPod is true for what cannot change, repaired or not, as long as the pod has the volume mounted.
func (r Reason) NeedsNewPod() bool {
	return r == Shutdown || r == NotMounted || r == NodeDevice || r == SharedDevice
}

// Usage is the state of a file system.
type Usage struct {
	// Size and Free are in bytes; Free is what an unprivileged process may take.
	Size, Free int64
	// Inodes and FreeInodes are counts; both are 0 on a file system that has no fixed number.
	Inodes, FreeInodes uint64
	FileSystem         FileSystem
}

// Sample is the outcome of a probe.
type Sample struct {
	At      time.Time
	Latency time.Duration
	Reason  Reason
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
	Status  Status
	Reason  Reason
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
func (s State) judge(sample Sample, t Thresholds) (Reason, string) {
	if sample.Reason != "" || sample.Usage == (Usage{}) {
		return sample.Reason, sample.Message
	}
	minFree, minInodes := t.MinFree, uint64(max(t.MinFreeInodes, 0))
	if s.Status == Failed {
		minFree, minInodes = minFree+minFree/2, minInodes+minInodes/2
	}
	u := sample.Usage
	if u.Free < minFree {
		return Full, fmt.Sprintf("%d MiB are free, less than %d MiB", u.Free>>20, minFree>>20)
	}
	if u.Inodes > 0 && u.FreeInodes*100 < u.Inodes*minInodes {
		return NoInodes, fmt.Sprintf("%d of %d inodes are free, less than %d%%", u.FreeInodes, u.Inodes, minInodes)
	}
	return "", ""
}

func (s State) good(at time.Time, t Thresholds) State {
	s.failures = 0
	if s.Status == Healthy {
		return s
	}
	if s.Status == Failed {
		s.successes++
		if s.successes < s.needed(t) {
			return s
		}
		s.returned = at
	}
	s.Status, s.Reason, s.Message, s.Since = Healthy, "", "", at
	return s
}

func (s State) bad(at time.Time, reason Reason, message string, t Thresholds) State {
	s.successes = 0
	s.failures++
	if s.Status == Failed {
		if s.Reason != reason { // otherwise the first message stands: one that counts would be news each time
			s.Reason, s.Message = reason, message
		}
		return s
	}
	if s.Status == Healthy && !reason.isCertain() && s.failures < t.Failures {
		return s
	}
	if !s.returned.IsZero() && at.Sub(s.returned) < flapTime {
		s.flaps = min(s.flaps+1, maxFlaps)
	} else {
		s.flaps = 0
	}
	s.Status, s.Reason, s.Message, s.Since = Failed, reason, message, at
	return s
}

// needed is how many good probes in a row bring the disk back.
func (s State) needed(t Thresholds) int { return t.Successes << s.flaps }

// Delay is the time from the end of a probe to the next one.
func (s State) Delay(t Thresholds) time.Duration {
	if s.Status == Healthy && s.failures > 0 {
		return confirmDelay
	}
	return t.Interval
}
