// Package cachefile reads and invalidates the files of nginx's cache (proxy_cache_path). The layout of these files is
// internal to nginx and may change. All code that depends on the layout is here, and the package does not interpret
// files of another version.
//
// It imports no other package of this project. Code that reads a further value from nginx's files goes here; no other
// package reads these files.
package cachefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// Version is the version of the layout that this package knows: NGX_HTTP_CACHE_VERSION of nginx 1.28 to 1.30.
const Version = 5

// The layout of ngx_http_file_cache_header_t on 64-bit little-endian machines, such as linux/amd64 and linux/arm64.
const (
	atVersion     = 0
	atValidUntil  = 8
	atUpdating    = 16
	atError       = 24
	atReceived    = 40
	atHeaderStart = 54
	atBodyStart   = 56
	atVaryLength  = 187
	atVary        = 188
	atVariant     = 316
	headerSize    = 336
	variantSize   = 16
	varyCapacity  = atVariant - atVary
)

// keyMark comes before the key, which ends with a line feed.
const keyMark = "\nKEY: "

// Errors for files that nginx itself does not use. ErrVersion is the error for a file of another version; a stamped
// file has version 0. ErrDamaged is the error for an incomplete file. All other errors come from the disk.
var (
	ErrVersion = errors.New("the file's version is not the one that is known")
	ErrDamaged = errors.New("the file is damaged")
)

// Header contains what nginx stores before the body of a response.
type Header struct {
	// Key is the cache key. The variants of a response (Vary) are several files with the same key.
	Key string
	// ValidUntil is the time until which the response is fresh. Received is the time at which its header arrived from
	// the origin.
	ValidUntil, Received time.Time
	// Updating is how long after ValidUntil the response may be served while it is renewed (stale-while-revalidate).
	// Error is how long after ValidUntil it may be served instead of an error (stale-if-error). Stale is the longer of
	// the two. All three are in whole seconds, and at most MaxStale.
	Updating, Error, Stale time.Duration
	// Vary is the part of the response's Vary header that nginx stores; "" if there is none. Variant is a hash of the
	// request headers that Vary names.
	Vary    string
	Variant [variantSize]byte
	// Response is the status line and the headers of the response, as the origin sent them.
	Response []byte
	// Body is the offset in bytes at which the body begins in the file.
	Body int64
}

// MaxStale is the upper limit of the times for which a response may be served stale: ten years.
const MaxStale = 10 * 365 * 24 * time.Hour

// Read reads the header of a cache file.
func Read(file io.ReaderAt) (h Header, err error) {
	fixed := make([]byte, headerSize)
	if err := readAt(file, fixed, 0); err != nil {
		return h, err
	}
	if version := binary.LittleEndian.Uint64(fixed[atVersion:]); version != Version {
		return h, fmt.Errorf("cache file: %w: %d", ErrVersion, version)
	}
	number := func(at int) int64 { return int64(binary.LittleEndian.Uint64(fixed[at:])) } //nolint:gosec // time_t
	h.ValidUntil, h.Received = time.Unix(number(atValidUntil), 0), time.Unix(number(atReceived), 0)
	window := func(at int) time.Duration {
		return time.Duration(min(max(number(at), 0), int64(MaxStale/time.Second))) * time.Second
	}
	h.Updating, h.Error = window(atUpdating), window(atError)
	h.Stale = max(h.Updating, h.Error)
	start := int(binary.LittleEndian.Uint16(fixed[atHeaderStart:]))
	body := int(binary.LittleEndian.Uint16(fixed[atBodyStart:]))
	vary := int(fixed[atVaryLength])
	if start <= headerSize+len(keyMark) || body < start || vary > varyCapacity {
		return Header{}, fmt.Errorf("cache file: %w: header at %d, body at %d", ErrDamaged, start, body)
	}
	h.Vary = string(fixed[atVary : atVary+vary])
	copy(h.Variant[:], fixed[atVariant:])
	rest := make([]byte, body-headerSize)
	if err := readAt(file, rest, headerSize); err != nil {
		return Header{}, err
	}
	key, marked := bytes.CutPrefix(rest[:start-headerSize], []byte(keyMark))
	key, ended := bytes.CutSuffix(key, []byte("\n"))
	if !marked || !ended {
		return Header{}, fmt.Errorf("cache file: %w: it has no key", ErrDamaged)
	}
	h.Key, h.Response, h.Body = string(key), rest[start-headerSize:], int64(body)
	return h, nil
}

// readAt reads from an offset in a file until the buffer is full.
func readAt(file io.ReaderAt, buffer []byte, at int64) error {
	_, err := file.ReadAt(buffer, at)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("cache file: %w: it ends early", ErrDamaged)
	} else if err != nil {
		return fmt.Errorf("cache file: %w", err)
	}
	return nil
}

// CanBeRenewed reports whether the origin can renew the response by a 304, because the response has a validator (RFC
// 9110, section 8.8).
func (h Header) CanBeRenewed() bool { return len(h.Values("ETag"))+len(h.Values("Last-Modified")) > 0 }

// Values returns the values of a header of the response, in their order in the response.
func (h Header) Values(name string) (values []string) {
	name = textproto.CanonicalMIMEHeaderKey(name)
	for line := range strings.Lines(string(h.Response)) {
		field, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if ok && textproto.CanonicalMIMEHeaderKey(field) == name {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// Length returns the size of the response's body in bytes, as the header states it; ok is false if the header does
// not state it. nginx also stores the body for a HEAD request, because it sends a GET request to the origin
// (proxy_cache_convert_head).
func (h Header) Length() (bytes int64, ok bool) {
	if status := h.status(); status == "204" || status == "304" {
		return 0, true
	}
	values := h.Values("Content-Length")
	if len(values) != 1 {
		return 0, false
	}
	bytes, err := strconv.ParseInt(values[0], 10, 64)
	return bytes, err == nil && bytes >= 0
}

// status returns the status code in the status line; "" if the line contains none.
func (h Header) status() string {
	line, _, _ := strings.Cut(string(h.Response), "\r\n")
	words := strings.Fields(line)
	if len(words) < 2 {
		return ""
	}
	return words[1]
}
