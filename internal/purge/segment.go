package purge

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Segment is a part of the journal as it is stored. Only the last one changes, so that a write stays small.
type Segment struct {
	// After is the head of the journal before the segment, and Head the last place in it.
	After int64 `json:"after"`
	Head  int64 `json:"head"`
	// Floor is that of the journal when the segment was written.
	Floor int64 `json:"floor"`
	// Rules got their places in this segment, without their ends. Ends were given in it, to rules of any segment.
	Rules []Rule `json:"rules,omitempty"`
	Ends  []End  `json:"ends,omitempty"`
	// Closed is true if another segment comes after it. That is written before the other one begins, so that nobody who
	// does not know of it goes on with this one.
	Closed bool `json:"closed,omitempty"`
}

// End is the end of a rule.
type End struct {
	// Number is that of the rule, and Changed the place of the end.
	Number  int64     `json:"number"`
	Changed int64     `json:"changed"`
	Until   time.Time `json:"until"`
}

// endSize is about how many bytes an end takes before it is compressed.
const endSize = 96

// size returns about how many bytes a segment takes before it is compressed.
func (s Segment) size() int {
	n := endSize * len(s.Ends)
	for _, r := range s.Rules {
		n += r.Size()
	}
	return n
}

// Join returns the journal that segments make up. A journal of which a part is lost begins after that part.
func Join(segments []Segment) (j Journal) {
	segments = slices.Clone(segments)
	slices.SortFunc(segments, func(a, b Segment) int {
		return cmp.Or(cmp.Compare(a.Head, b.Head), cmp.Compare(a.After, b.After))
	})
	n := len(segments)
	if n == 0 {
		return Journal{}
	}
	first := n - 1
	for first > 0 && segments[first-1].Head == segments[first].After {
		first--
	}
	last := segments[n-1]
	for _, s := range segments[first:] {
		j.Rules = append(j.Rules, s.Rules...)
	}
	slices.SortFunc(j.Rules, func(a, b Rule) int { return cmp.Compare(a.Number, b.Number) })
	for _, s := range segments[first:] {
		for _, e := range s.Ends {
			if i, known := j.find(e.Number); known {
				j.Rules[i].Changed, j.Rules[i].Until = e.Changed, e.Until
			}
		}
	}
	j.Head = last.Head
	j.raise(max(last.Floor, segments[first].After))
	return j
}

// HasGap returns true if a part of the journal is lost: it begins later than it was to begin when any segment was
// written.
func HasGap(segments []Segment) bool {
	floor := int64(0)
	for _, s := range segments {
		floor = max(floor, s.Floor)
	}
	return Join(segments).Floor > floor
}

// Encode returns the segment as text, compressed.
func (s Segment) Encode() ([]byte, error) { return encode(s) }

// DecodeSegment reads what Encode wrote.
func DecodeSegment(text []byte) (s Segment, err error) {
	err = decode(text, &s)
	return s, err
}

// encode returns a part of the journal as text, compressed.
func encode(of any) ([]byte, error) {
	var text bytes.Buffer
	to, err := gzip.NewWriterLevel(&text, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(to).Encode(of); err != nil {
		return nil, err
	}
	err = to.Close()
	return text.Bytes(), err
}

// maxDecoded is how many bytes of a journal are read.
const maxDecoded = 64 << 20

// decode reads what encode wrote.
func decode(text []byte, to any) error {
	from, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("the journal of purges: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(from, maxDecoded)).Decode(to); err != nil {
		return fmt.Errorf("the journal of purges: %w", err)
	}
	return nil
}
