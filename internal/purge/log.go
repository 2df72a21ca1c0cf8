package purge

import (
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

const (
	// Slots is how many segments are stored at most, one in each slot.
	Slots = naming.PurgesSlots
	// SegmentSize is how many bytes of purges a segment has, before it is compressed, unless one purge alone has more.
	SegmentSize = 256 << 10
	// MaxRule is how many bytes a purge may have, so that a segment can be stored however little can be compressed.
	MaxRule = 768 << 10
)

// Log is the journal together with the segments in which it is stored. The zero value is an empty one. It is not safe
// for concurrent use.
type Log struct {
	Journal
	segments [Slots]*Segment
	// last is the slot of the last segment.
	last int
	// changed are the slots to be written, in their order.
	changed []int
}

// NewLog begins a journal after a place, with nothing stored.
func NewLog(after int64) *Log { return &Log{Journal: Journal{Floor: after, Head: after}} }

// OpenLog returns the journal that is stored in slots; nil means that a slot has nothing.
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

// Restart forgets what is stored, and begins a journal after a place.
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

// IsWhole returns true if no later segment was ever begun than the last one that is stored.
func (l *Log) IsWhole() bool {
	s := l.segments[l.last]
	return s != nil && !s.Closed
}

// Clone returns a copy, so that a change can be computed before it is written.
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

// Add gives a purge a place. It returns false if the journal is full, and has then done nothing.
func (l *Log) Add(now time.Time, r Rule) bool {
	if !l.fits(r.Size()) {
		return false
	}
	r = l.Journal.Add(now, r)
	s := l.tail(r.Size())
	s.Rules, s.Head = append(s.Rules, r), l.Head
	return true
}

// Seal gives the rule at a place an end. It does nothing if there is no such rule or if it has one.
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

// Compact removes old rules; see [Journal.Compact]. A slot whose rules are all gone can then be used again.
func (l *Log) Compact(before time.Time, most int, applied int64) {
	if l.Journal.Compact(before, most, applied) {
		l.tail(0)
	}
}

// Rewrite marks the segments in some slots to be written once more.
func (l *Log) Rewrite(slots []int) {
	for _, i := range slots {
		if l.segments[i] != nil {
			l.change(i)
		}
	}
}

// Blank marks slots that cannot be read to be written as segments of nothing.
func (l *Log) Blank(slots []int) {
	for _, slot := range slots {
		l.segments[slot] = &Segment{Closed: true}
		l.change(slot)
	}
}

// Changed returns the slots to be written, in this order, and their segments.
func (l *Log) Changed() (slots []int, segments []Segment) {
	for _, i := range l.changed {
		segments = append(segments, *l.segments[i])
	}
	return l.changed, segments
}

// Written says that all that has changed is stored.
func (l *Log) Written() { l.changed = nil }

// isFree returns true for a slot whose segment, if it has one, has nothing that is in the journal.
func (l *Log) isFree(slot int) bool {
	s := l.segments[slot]
	if s == nil {
		return true
	}
	i, _ := l.find(s.After + 1) // the first rule after what came before the segment
	return s.Closed && s.Head <= l.Floor && (i == len(l.Rules) || l.Rules[i].Number > s.Head)
}

// fits returns true if a rule can be added, and all rules can still get their ends.
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

// open returns how many rules have no end.
func (l *Log) open() (n int) {
	for _, r := range l.Rules {
		if r.Until.IsZero() {
			n++
		}
	}
	return n
}

// tail returns the segment that has room for size bytes: the last one, or a new one. It will be written.
func (l *Log) tail(size int) *Segment {
	s := l.segments[l.last]
	next := (l.last + 1) % Slots
	switch {
	case s == nil: // the first one of all
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
