// Package cachekey has the keys under which nginx stores responses: how a key follows from a request, how it is written
// and read, and which file of a cache it leads to. It is pure. No other package writes or reads the form of a key.
// nginx computes the same keys from the expressions of [Parts] and from [SliceMark].
//
// A stored key is made of up to four things, in this order:
//
//	generation=12 bytes=0-1048575 site=shop https://www.example.com/a?b=c
//
// The first three are marks. A mark is a name, "=", a value without spaces and slashes, and a space. What does not
// apply is left out: most keys have no mark. The rest is the text that follows from a request by the cache policy.
//
// No text begins like a mark. Before its first space, a text has a method, which has no "=", or a slash: that of the
// scheme, or the first one of the URI, as a host has neither a slash nor a space. So a key without the mark of a site
// belongs to the CacheNode's own site, whatever clients send, and the key of one site is never that of another.
//
// It may import naming and layout. A new part of stored keys goes into the writer and the parser here, which the
// property test compares.
package cachekey

import (
	"strconv"
	"strings"
)

// Key is a stored key, taken apart. [Of] and [Parse] make keys; the fields can be set afterwards.
type Key struct {
	// Generation is that of the disk's keys when the response was stored; 0 if they had none.
	Generation int64
	// Slice is the part of the object; the zero value is the whole object.
	Slice Slice
	// Site is the site that the object belongs to.
	Site Site
	// text follows from a request by the cache policy.
	text string
}

// The names of the marks.
const (
	generationMark = "generation="
	sliceMark      = "bytes="
	siteMark       = "site="
)

// String returns the key as nginx stores it.
func (k Key) String() string {
	generation := ""
	if k.Generation > 0 {
		generation = generationMark + strconv.FormatInt(k.Generation, 10) + " "
	}
	return generation + k.Slice.mark() + k.Object()
}

// Object returns the key of the object, which all of its slices share in all generations. Its hash says which pod and
// which disk have the object, and purges name objects by it.
func (k Key) Object() string { return k.Site.Prefix() + k.text }

// Parse takes a stored key apart, or the key of an object. It reads any text: String of the result is the same text
// again.
func Parse(stored string) (k Key) {
	k.text = stored
	if value, rest, ok := cutMark(k.text, generationMark); ok {
		if n, ok := number(value); ok && n > 0 {
			k.Generation, k.text = n, rest
		}
	}
	if value, rest, ok := cutMark(k.text, sliceMark); ok {
		if slice, ok := parseSlice(value); ok {
			k.Slice, k.text = slice, rest
		}
	}
	if value, rest, ok := cutMark(k.text, siteMark); ok {
		if site, err := NewSite(value); err == nil {
			k.Site, k.text = site, rest
		}
	}
	return k
}

// cutMark returns the value of the mark with which a text begins, and what follows the mark.
func cutMark(text, name string) (value, rest string, ok bool) {
	text, ok = strings.CutPrefix(text, name)
	if !ok {
		return "", "", false
	}
	return strings.Cut(text, " ")
}

// number reads a number in the only form in which it is written.
func number(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}
