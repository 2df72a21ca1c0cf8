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

// Segment is a part of the journal in the form in which it is stored. Rules and ends are added only to the last
// segment, so each write is small.
type Segment struct {
	// After is the last place before the segment. Head is the last place in the segment.
	After int64 `json:"after"`
	Head  int64 `json:"head"`
	// Floor is the floor of the journal when the segment was written.
	Floor int64 `json:"floor"`
	// Rules are the rules whose places are in this segment, without their ends. Ends are the ends whose places are in this
	// segment. They can belong to rules of any segment.
	Rules []Rule `json:"rules,omitempty"`
	Ends  []End  `json:"ends,omitempty"`
	// Closed is true if another segment comes after this one. It is written before the other segment begins. So a writer
	// that does not know the other segment does not add anything to this one.
	Closed bool `json:"closed,omitempty"`
}

// End is the end of a rule.
type End struct {
	// Number is the number of the rule. Changed is the place of its end.
	Number  int64     `json:"number"`
	Changed int64     `json:"changed"`
	Until   time.Time `json:"until"`
}

// endSize is the approximate size of an end in bytes, before compression.
const endSize = 96

// size returns the approximate size of a segment in bytes, before compression.
func (s Segment) size() int {
	n := endSize * len(s.Ends)
	for _, r := range s.Rules {
		n += r.Size()
	}
	return n
}

// Join returns the journal that consists of the segments. If a part of the journal is lost, the result begins after
// that part.
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

// HasGap returns true if segments are missing. In this case, the Floor of the joined journal is higher than the Floor
// of every single segment.
func HasGap(segments []Segment) bool {
	floor := int64(0)
	for _, s := range segments {
		floor = max(floor, s.Floor)
	}
	return Join(segments).Floor > floor
}

// Encode returns the segment as compressed text.
func (s Segment) Encode() ([]byte, error) { return encode(s) }

// DecodeSegment reads the text that Encode has returned.
func DecodeSegment(text []byte) (s Segment, err error) {
	err = decode(text, &s)
	return s, err
}

// encode returns a part of the journal as compressed text.
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

// maxDecoded is the maximum number of decompressed bytes that decode reads.
const maxDecoded = 64 << 20

// decode reads the text that encode has returned.
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
