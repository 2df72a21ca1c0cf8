package purge

import (
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

const (
	// Slots is the number of slots. Each slot can store one segment.
	Slots = naming.PurgesSlots
	// SegmentSize is the maximum size of the purges in a segment in bytes, before compression. A segment with a single
	// purge may be larger.
	SegmentSize = 256 << 10
	// MaxRule is the maximum size of a purge in bytes. With this limit, a segment can be stored even if compression hardly
	// makes it smaller.
	MaxRule = 768 << 10
)

// Log is the journal together with the segments in which it is stored. The zero value is an empty journal. Log is not
// safe for concurrent use.
type Log struct {
	Journal
	segments [Slots]*Segment
	// last is the slot of the last segment.
	last int
	// changed are the slots that must be written, in the order in which they must be written.
	changed []int
}

// NewLog returns an empty journal that begins after a place. No part of this journal is stored yet.
func NewLog(after int64) *Log { return &Log{Journal: Journal{Floor: after, Head: after}} }

// OpenLog returns the journal that is stored in slots. A segment is nil if the slot is empty.
func OpenLog(segments [Slots]*Segment) *Log {
	l := &Log{segments: segments}
	var list []Segment
	for i, s := range segments {
		if s == nil {
			continue
		}
		list = append(list, *s)
		if last := segments[l.last]; last == nil || s.Head > last.Head || (s.Head == last.Head && s.After >= last.After) {
			l.last = i
		}
	}
	l.Journal = Join(list)
	return l
}

// Restart discards the stored journal, and begins a new journal after a place.
func (l *Log) Restart(after int64) {
	after = max(after, l.Head)
	l.Journal, l.changed = Journal{Floor: after, Head: after}, nil
	last := l.segments[l.last]
	for _, s := range l.segments {
		if s != nil {
			s.Closed = true
		}
	}
	if last != nil {
		l.change(l.last)
		l.last = (l.last + 1) % Slots
	}
	if after > 0 {
		l.segments[l.last] = &Segment{After: after, Head: after, Floor: after}
		l.change(l.last)
	}
}

// IsWhole returns true if the last stored segment is also the newest one. It returns false if a newer segment was begun
// but is not stored.
func (l *Log) IsWhole() bool {
	s := l.segments[l.last]
	return s != nil && !s.Closed
}

// Clone returns a copy of the journal. So a change can be made in the copy and written first, before the original
// changes.
func (l *Log) Clone() *Log {
	c := *l
	c.Rules = slices.Clone(l.Rules)
	for i, s := range l.segments {
		if s != nil {
			c.segments[i] = new(*s)
			c.segments[i].Rules, c.segments[i].Ends = slices.Clip(s.Rules), slices.Clip(s.Ends)
		}
	}
	c.changed = slices.Clone(l.changed)
	return &c
}

// Add adds a purge to the journal. If the journal is full, it does nothing and returns false.
func (l *Log) Add(now time.Time, r Rule) bool {
	if !l.fits(r.Size()) {
		return false
	}
	r = l.Journal.Add(now, r)
	s := l.tail(r.Size())
	s.Rules, s.Head = append(s.Rules, r), l.Head
	return true
}

// Seal gives an end to the rule at a place. It does nothing if there is no such rule, or if the rule already has an
// end.
func (l *Log) Seal(now time.Time, number int64, until time.Time) {
	i, known := l.find(number)
	if !known || !l.Rules[i].Until.IsZero() {
		return
	}
	l.Journal.Seal(now, number, until)
	s := l.tail(endSize)
	s.Ends = append(s.Ends, End{number, l.Rules[i].Changed, until})
	s.Head = l.Head
}

// Compact removes old rules; see [Journal.Compact]. If all rules of a slot are removed, the slot can be used again.
func (l *Log) Compact(before time.Time, most int, applied int64) {
	if l.Journal.Compact(before, most, applied) {
		l.tail(0)
	}
}

// Rewrite marks the segments in some slots, so that they are written again.
func (l *Log) Rewrite(slots []int) {
	for _, i := range slots {
		if l.segments[i] != nil {
			l.change(i)
		}
	}
}

// Blank marks slots that cannot be read, so that they are overwritten with empty segments.
func (l *Log) Blank(slots []int) {
	for _, slot := range slots {
		l.segments[slot] = &Segment{Closed: true}
		l.change(slot)
	}
}

// Changed returns the slots that must be written and their segments, in the order in which they must be written.
func (l *Log) Changed() (slots []int, segments []Segment) {
	for _, i := range l.changed {
		segments = append(segments, *l.segments[i])
	}
	return l.changed, segments
}

// Written notes that all changes are stored.
func (l *Log) Written() { l.changed = nil }

// isFree returns true for a slot that has no segment, and for a slot whose segment contains no rule or end that the
// journal still needs.
func (l *Log) isFree(slot int) bool {
	s := l.segments[slot]
	if s == nil {
		return true
	}
	i, _ := l.find(s.After + 1) // the first rule after the previous segment
	return s.Closed && s.Head <= l.Floor && (i == len(l.Rules) || l.Rules[i].Number > s.Head)
}

// fits returns true if there is room for a new rule and for the ends of all rules that have no end yet.
func (l *Log) fits(size int) bool {
	room := 0
	for slot := range l.segments {
		if slot != l.last && l.isFree(slot) {
			room += SegmentSize
		}
	}
	if s := l.segments[l.last]; s != nil && !s.Closed && s.size()+size <= SegmentSize {
		room += SegmentSize - s.size()
	} else if room == 0 || !l.isFree((l.last+1)%Slots) {
		return false
	}
	return room >= min(size, SegmentSize)+endSize*(l.open()+1)
}

// open returns the number of rules without an end.
func (l *Log) open() (n int) {
	for _, r := range l.Rules {
		if r.Until.IsZero() {
			n++
		}
	}
	return n
}

// tail returns the segment for the next size bytes. This is the last segment, or a new one if the last segment is full
// and the next slot is free. tail marks the segment, so that it will be written.
func (l *Log) tail(size int) *Segment {
	s := l.segments[l.last]
	next := (l.last + 1) % Slots
	switch {
	case s == nil: // this is the very first segment
		s = &Segment{After: l.Floor, Head: l.Floor}
	case s.Closed, s.size() > 0 && s.size()+size > SegmentSize && l.isFree(next):
		s.Closed = true
		l.change(l.last)
		l.last, s = next, &Segment{After: s.Head, Head: s.Head}
	}
	l.segments[l.last] = s
	s.Floor = l.Floor
	l.change(l.last)
	return s
}

func (l *Log) change(slot int) {
	if !slices.Contains(l.changed, slot) {
		l.changed = append(l.changed, slot)
	}
}
