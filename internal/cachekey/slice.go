package cachekey

import (
	"strconv"
	"strings"
)

// SliceMark is the expression for the mark of a slice in nginx's configuration.
const SliceMark = "$slice_range "

// Slice is a slice of an object: its first byte, counted from 0, and its size in bytes. In the keys, the last slice
// of an object has the same size as the other slices. The zero value is the whole object.
type Slice struct{ First, Size int64 }

// NthSlice returns slice number n, counted from 0, of an object that is stored in slices of size bytes.
func NthSlice(size, n int64) Slice { return Slice{n * size, size} }

// mark returns the mark of the slice in a stored key; "" for the whole object.
func (s Slice) mark() string {
	if s.Size == 0 {
		return ""
	}
	return sliceMark + strconv.FormatInt(s.First, 10) + "-" + strconv.FormatInt(s.First+s.Size-1, 10) + " "
}

// parseSlice parses the value of the mark of a slice.
func parseSlice(value string) (s Slice, ok bool) {
	first, last, _ := strings.Cut(value, "-")
	from, isFrom := number(first)
	to, isTo := number(last)
	return Slice{from, to - from + 1}, isFrom && isTo && from >= 0 && to >= from
}
