package main

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// spindle simulates the mechanics of a hard disk with one head, which does one access at a time. An access that does
// not begin where the last access ended costs a seek. Each byte costs time too.
type spindle struct {
	clock clock.Clock
	mutex sync.Mutex
	// seek is the time of a seek, and perSecond is the number of bytes that the disk transfers in a second. Both are 0
	// for a disk at full speed.
	seek      time.Duration
	perSecond float64
	// position is the offset in bytes at which the last access ends. free is the time at which the last access will be
	// done.
	position int64
	free     time.Time
}

// set sets the time of a seek, and the number of bytes that the disk transfers in a second.
func (s *spindle) set(seek time.Duration, perSecond float64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.seek, s.perSecond = seek, perSecond
}

// access waits until the head has moved over size bytes from offset on.
func (s *spindle) access(offset int64, size int) {
	s.clock.Sleep(s.reserve(offset, size).Sub(s.clock.Now()))
}

// reserve returns the time at which an access will be done. The access begins when all earlier accesses are done.
func (s *spindle) reserve(offset int64, size int) time.Time {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var cost time.Duration
	if offset != s.position {
		cost = s.seek
	}
	if s.perSecond > 0 {
		cost += time.Duration(float64(size) / s.perSecond * float64(time.Second))
	}
	if now := s.clock.Now(); s.free.Before(now) {
		s.free = now
	}
	s.position, s.free = offset+int64(size), s.free.Add(cost)
	return s.free
}
