package differential

import (
	"strconv"
	"strings"
)

// span is a range of bytes, both ends included.
type span struct{ first, last int }

// parseRange returns the ranges of a Range header that can be satisfied for a body of the given size (RFC 9110, section
// 14.1.2). ok is false for a header that is not valid. A server may ignore or refuse such a header.
func parseRange(header string, size int) (spans []span, ok bool) {
	set, ok := strings.CutPrefix(header, "bytes=")
	if !ok {
		return nil, false
	}
	for part := range strings.SplitSeq(set, ",") {
		first, last, ok := strings.Cut(strings.TrimSpace(part), "-")
		if !ok {
			return nil, false
		}
		s, ok := parseSpan(first, last, size)
		if !ok {
			return nil, false
		}
		if s.first <= s.last && s.first < size {
			spans = append(spans, s)
		}
	}
	return spans, true
}

// parseSpan reads one range. If no byte of the body is in the range, the result is empty, which means that first is
// larger than last.
func parseSpan(first, last string, size int) (s span, ok bool) {
	if first == "" {
		suffix, ok := position(last)
		return span{max(size-suffix, 0), size - 1 - boolInt(suffix == 0)*size}, ok
	}
	from, ok := position(first)
	if !ok || last == "" {
		return span{from, size - 1}, ok
	}
	to, ok := position(last)
	if !ok || to < from {
		return span{}, false
	}
	return span{from, min(to, size-1)}, true
}

// position reads a number of bytes. A number that is too large for an int becomes the largest int.
func position(text string) (n int, ok bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return int(^uint(0) >> 1), true
	}
	return n, true
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
