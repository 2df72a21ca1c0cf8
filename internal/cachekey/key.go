// Package cachekey defines the keys under which nginx stores responses. It computes a key from a request, writes and
// parses keys, and finds the cache file of a key. It is pure. No other package writes or parses keys. nginx computes
// the same keys from the expressions of [Parts] and from [SliceMark].
//
// A stored key consists of up to four elements, in this order:
//
//	generation=12 bytes=0-1048575 site=shop https://www.example.com/a?b=c
//
// The first three elements are marks. A mark consists of a name, "=", a value without spaces and slashes, and a
// space. A mark that does not apply is omitted: most keys have no mark. The last element is the text that the cache
// policy makes from a request.
//
// No text begins like a mark. The part of a text before its first space either is a method, which contains no "=", or
// contains a slash. This slash belongs to the scheme, or is the first slash of the URI, because a host contains
// neither a slash nor a space. A key without the mark of a site therefore belongs to the CacheNode's own site,
// whatever clients send. A key with the mark of a site belongs to that site. So two sites never have the same key.
//
// The package may import the API's types, naming and layout. Add a new element of stored keys to both the writer and
// the parser in this package. TestParseOfString compares the two.
package cachekey

import (
	"strconv"
	"strings"
)

// Key is a parsed stored key. [Of] and [Parse] return keys, whose fields the caller may then set.
type Key struct {
	// Generation is the generation of the disk when the response was stored; 0 if the disk's keys had no generation.
	Generation int64
	// Slice is the slice of the object that is stored under the key; the zero value means the whole object.
	Slice Slice
	// Site is the site to which the object belongs.
	Site Site
	// text is what the cache policy makes from a request.
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

// Object returns the key of the object, which is the same for all slices of the object in all generations. The hash
// of this key determines which pod and which disk store the object. Purges also name objects by this key.
func (k Key) Object() string { return k.Site.Prefix() + k.text }

// Parse parses a stored key, or the key of an object. It accepts any text. String of the result returns the same text
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

// cutMark returns the value of the mark at the beginning of a text, and the rest of the text after the mark.
func cutMark(text, name string) (value, rest string, ok bool) {
	text, ok = strings.CutPrefix(text, name)
	if !ok {
		return "", "", false
	}
	return strings.Cut(text, " ")
}

// number parses a number. It accepts only the form in which this package writes numbers.
func number(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}
