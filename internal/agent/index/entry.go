// Package index records which objects the cache of a disk contains: their keys, their tags, and their files. The
// index of a disk is stored on the disk itself, and can always be rebuilt from nginx's files.
//
// It may import cachefile, cachekey and objects. To answer a new kind of question about stored objects, add a kind of
// record here and change Format.
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

// Entry contains what the index stores about a file.
type Entry struct {
	File cachekey.File
	// Key is the object's key. All slices and all variants of an object have the same Key.
	Key string
	// Generation is the generation of the disk's keys when the file was stored; 0 if the keys had no generation.
	Generation int64
	// Tags are the object's tags, sorted, each once.
	Tags []string
	// Received is the time at which the response arrived from the origin. ValidUntil is the time until which the
	// response is fresh. Both are in whole seconds. A renewal (304) changes both times in the file; the index gets the
	// new times when the file is read again.
	Received, ValidUntil time.Time
	// Stored is the time of the last write to the file, in whole seconds. A renewal also writes to the file: it changes
	// the header.
	Stored time.Time
	// Stale is how long the response remains useful after ValidUntil. It is cachefile.MaxStale if the origin can renew
	// the response, and otherwise the time for which the response itself allows stale use, in whole seconds.
	Stale time.Duration
	// Size is the size of the file in bytes.
	Size int64
}

// Format identifies the layout of the records. An index with another format cannot be used.
const Format = "4"

// MaxTags is the largest number of tags that are indexed for an object. MaxTag is the largest length of an indexed tag
// in bytes. If an object has more tags, longer tags or tags with control characters, these tags are left out. The
// object then gets the tag TagsCut, which no header can contain.
const (
	MaxTags = 128
	MaxTag  = 256
	TagsCut = "\x01"
)

// ParseTags returns the tags in the values of a header. Tags are separated by spaces, as in Surrogate-Key, by commas,
// as in Cache-Tag, or by tabs.
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

// The kinds of records. The kind is the first byte of a record's key.
const (
	byFile = iota + 1 // the folder and the file → the entry
	byKey             // the object's key, 0 and the file → nothing
	byTag             // a tag, 0 and the file → nothing
	meta              // a name → a value
)

// fileRecord returns the key of the record of a file. The keys for the files of one folder follow each other in the
// database.
func fileRecord(f cachekey.File) []byte {
	return append(folderRecords(f.Folder()), f[:]...)
}

// folderRecords returns the common prefix of the record keys for all files in a folder.
func folderRecords(f cachekey.Folder) []byte {
	return binary.BigEndian.AppendUint16([]byte{byFile}, uint16(f))
}

// textRecord returns the key of a record that leads from a text to a file. The text must not contain a zero byte.
func textRecord(kind byte, text string, f cachekey.File) []byte {
	return append(append(append([]byte{kind}, text...), 0), f[:]...)
}

// fileIn returns the file to which a record key from textRecord or fileRecord leads.
func fileIn(record []byte) (f cachekey.File, err error) {
	if len(record) < len(f)+2 {
		return f, errDamaged
	}
	copy(f[:], record[len(record)-len(f):])
	return f, nil
}

// encode returns the value of the record for a file.
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

// decode returns the entry that encode has written into a record's value.
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
