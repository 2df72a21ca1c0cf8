// Package index knows which objects the cache of a disk has: their keys and tags, and the files that they are in. It is
// stored on the disk itself, and can always be rebuilt from nginx's files.
//
// It may import cachefile, cachekey and objects. Another question about stored objects is an index of records here,
// with another Format.
package index

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// Entry is what the index knows about a file.
type Entry struct {
	File cachekey.File
	// Key is the object's key. The slices of an object have the same key here, and so do its variants.
	Key string
	// Generation is that of the disk's keys when the file was stored; 0 if they had none.
	Generation int64
	// Tags are the object's tags, sorted, each once.
	Tags []string
	// Received is when the response arrived from the origin, and ValidUntil when it is no longer fresh, in whole seconds.
	// A renewal (304) changes both in the file, which the index learns when it reads the file again.
	Received, ValidUntil time.Time
	// Stored is when the file was last written to, in whole seconds. A renewal writes to the header.
	Stored time.Time
	// Stale is how long after ValidUntil the response is of use: as long as it says itself, in whole seconds, or
	// cachefile.MaxStale if the origin can renew it.
	Stale time.Duration
	// Size is that of the file, in bytes.
	Size int64
}

// Format identifies the layout of the records. An index of another format is of no use.
const Format = "4"

// MaxTags is how many tags of an object are indexed, and MaxTag the length of a tag in bytes. Others are left out, and
// the object has the tag TagsCut, which no header can have.
const (
	MaxTags = 128
	MaxTag  = 256
	TagsCut = "\x01"
)

// ParseTags returns the tags in the values of a header. Spaces separate tags (Surrogate-Key), and so do commas
// (Cache-Tag).
func ParseTags(values []string) []string {
	var tags []string
	cut := false
	for _, value := range values {
		for tag := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
			if len(tag) <= MaxTag && !strings.ContainsFunc(tag, isControl) {
				tags = append(tags, tag)
			} else {
				cut = true
			}
		}
	}
	slices.Sort(tags)
	tags = slices.Compact(tags)
	if cut || len(tags) > MaxTags {
		tags = append([]string{TagsCut}, tags[:min(len(tags), MaxTags)]...) // it sorts before all others
	}
	return tags
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// errDamaged is the error for a record that this package did not write.
var errDamaged = errors.New("the index is damaged")

// The kinds of records, which are the first byte of their keys.
const (
	byFile = iota + 1 // the folder and the file → the entry
	byKey             // the object's key, 0 and the file → nothing
	byTag             // a tag, 0 and the file → nothing
	meta              // a name → a value
)

// fileRecord returns the key of the record of a file. Those of a folder are neighbours.
func fileRecord(f cachekey.File) []byte {
	return append(folderRecords(f.Folder()), f[:]...)
}

// folderRecords returns what the keys of the records of a folder's files begin with.
func folderRecords(f cachekey.Folder) []byte {
	return binary.BigEndian.AppendUint16([]byte{byFile}, uint16(f))
}

// textRecord returns the key of a record that leads from a text, which has no zero byte, to a file.
func textRecord(kind byte, text string, f cachekey.File) []byte {
	return append(append(append([]byte{kind}, text...), 0), f[:]...)
}

// fileIn returns the file that a record of a text leads to.
func fileIn(record []byte) (f cachekey.File, err error) {
	if len(record) < len(f)+2 {
		return f, errDamaged
	}
	copy(f[:], record[len(record)-len(f):])
	return f, nil
}

// encode returns the value of the record of a file.
func (e Entry) encode() []byte {
	value := binary.AppendVarint(nil, e.Received.Unix())
	value = binary.AppendVarint(value, e.ValidUntil.Unix()-e.Received.Unix())
	value = binary.AppendVarint(value, e.Size)
	value = binary.AppendVarint(value, e.Stored.Unix()-e.Received.Unix())
	value = binary.AppendVarint(value, int64(e.Stale/time.Second))
	value = binary.AppendVarint(value, e.Generation)
	for _, text := range append([]string{e.Key}, e.Tags...) {
		value = append(binary.AppendUvarint(value, uint64(len(text))), text...)
	}
	return value
}

// decode returns the entry of a record's value.
func decode(f cachekey.File, value []byte) (e Entry, err error) {
	var numbers [6]int64
	for i := range numbers {
		number, n := binary.Varint(value)
		if n <= 0 {
			return e, errDamaged
		}
		numbers[i], value = number, value[n:]
	}
	if numbers[4] < 0 || numbers[4] > int64(cachefile.MaxStale/time.Second) {
		return e, errDamaged
	}
	e.File, e.Size, e.Stale, e.Generation = f, numbers[2], time.Duration(numbers[4])*time.Second, numbers[5]
	e.Received, e.ValidUntil = time.Unix(numbers[0], 0), time.Unix(numbers[0]+numbers[1], 0)
	e.Stored = time.Unix(numbers[0]+numbers[3], 0)
	var texts []string
	for len(value) > 0 {
		length, n := binary.Uvarint(value)
		if n <= 0 || length > uint64(len(value)-n) { //nolint:gosec // a length
			return Entry{}, errDamaged
		}
		end := n + int(length) //nolint:gosec // not above the length of value
		texts = append(texts, string(value[n:end]))
		value = value[end:]
	}
	if len(texts) == 0 {
		return Entry{}, errDamaged
	}
	e.Key = texts[0]
	if len(texts) > 1 {
		e.Tags = texts[1:]
	}
	return e, nil
}
