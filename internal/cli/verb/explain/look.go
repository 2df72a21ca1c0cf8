package explain

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

// mostSlices is how many slices of an object are looked for.
const mostSlices = 4096

// candidates are the paths at which a pod can have an object: on its disk, whose keys have a generation, in memory, and
// then its slices in order.
func candidates(c v1alpha1.CachePolicy, disk, object string, generation int64) []string {
	key := cachekey.Parse(object)
	key.Generation = generation
	files := []string{cachekey.OnDisk(disk, key.String()), cachekey.InMemory(object)}
	if c.Slice != nil {
		for n := range int64(mostSlices) {
			key.Slice = cachekey.NthSlice(c.Slice.Size.Value(), n)
			files = append(files, cachekey.OnDisk(disk, key.String()))
		}
	}
	return files
}

// look is a shell script that prints the generation of a disk's keys, which is in the file that it is called with. Then
// it reads paths and prints a line for each that exists: its number and size. For the first two and for the first
// slice, it prints the beginning of the header of the cache file, and the length of the object.
const look = `for part in generation cover; do
  echo "generation 0 $(sed -n "s/.*\"$part\":\([0-9]*\).*/\1/p" "$1" 2>/dev/null)"
done
n=0
while IFS= read -r file; do
  if [ -e "$file" ]; then
    echo "file $n $(stat -c %s "$file")"
    if [ $n -lt 2 ] || [ -z "$slice" ]; then
      echo "header $n $(od -An -v -tx1 -N32 "$file" | tr -d ' \n')"
    fi
    if [ $n -ge 2 ] && [ -z "$slice" ]; then
      slice=$n
      echo "length 0 $(head -c 8192 "$file" | tr '\r\000' '\n\n' |
        sed -n 's/^[Cc]ontent-[Rr]ange: bytes [0-9-]*\///p' | head -n 1)"
    fi;
  fi
  n=$((n + 1))
done`

// found is what a pod has of an object.
type found struct {
	// bytes are the sizes of its files on the disk, slices the number of its slices there, and length is the size of the
	// object, 0 if it is not known.
	bytes, slices, length int64
	// header is that of the file on the disk, or of the first slice there. memory is that of the copy in memory.
	header, memory header
	// generation is that of the disk's keys.
	generation int64
}

// header is the beginning of a cache file, ngx_http_file_cache_header_t: until when it is fresh, and how long after
// that it may be served while it is renewed and on errors. The zero value stands for no file.
type header struct {
	validTo         time.Time
	updating, error time.Duration
}

// parse reads what the script prints.
func parse(out []byte) (f found) {
	for line := range bytes.Lines(out) {
		var kind, text string
		var n, number int64
		if _, err := fmt.Sscan(string(line), &kind, &n, &text); err != nil {
			continue
		}
		_, _ = fmt.Sscan(text, &number)
		switch {
		case kind == "length":
			f.length = number
		case kind == "generation":
			f.generation = number // that of a cover comes after the other
		case kind == "file" && n != 1:
			f.bytes += number
			if n > 1 {
				f.slices++
			}
		case kind == "header" && n == 1:
			f.memory = parseHeader(text)
		case kind == "header" && f.header == header{}:
			f.header = parseHeader(text)
		}
	}
	return f
}

func parseHeader(text string) (h header) {
	data, err := hex.DecodeString(text)
	if err != nil || len(data) < 32 {
		return h
	}
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint64(data[8*i:])) } //nolint:gosec // seconds
	seconds := func(i int) time.Duration { return time.Duration(number(i)) * time.Second }
	return header{time.Unix(number(1), 0), seconds(2), seconds(3)}
}

// stale says how long after its end a file may be served.
func (h header) stale() string {
	until := func(window time.Duration) string { return h.validTo.Add(window).UTC().Format(time.RFC3339) }
	var times []string
	if h.updating > 0 {
		times = append(times, "until "+until(h.updating)+" while it is renewed")
	}
	if h.error > 0 {
		times = append(times, "until "+until(h.error)+" on errors")
	}
	if len(times) == 0 {
		return "expired: the origin is asked"
	}
	return "expired: served " + strings.Join(times, ", ")
}

// held is what a pod has of an object, and where it was looked for.
type held struct {
	found

	pod, disk string
	moved     bool
	// older is true if the pod does not run the revision that the spec asks for, so it may look for the object elsewhere.
	older bool
	// slice is the size of a slice; 0 if there are none.
	slice   int64
	problem string
}

// allSlices is how many slices the object has; 0 if the file of the first slice has the whole object, or no object.
func (c held) allSlices() int64 {
	if c.slices == 0 || c.length == 0 {
		return 0
	}
	return (c.length + c.slice - 1) / c.slice
}

// columns are the pod's row in the table. own is the disk of the key.
func (c held) columns(own string, now time.Time) []string {
	cached, size, valid := "no", "-", "-"
	var notes []string
	if c.bytes > 0 {
		cached, size, valid = "yes", fmt.Sprint(c.bytes), c.header.validTo.UTC().Format(time.RFC3339)
		if c.header.validTo.Before(now) {
			notes = append(notes, c.header.stale())
		}
	}
	if all := c.allSlices(); all > 0 {
		cached = fmt.Sprintf("%d of %d slices", c.slices, all)
	}
	if c.memory != (header{}) {
		notes = append(notes, "in memory too, until "+c.memory.validTo.UTC().Format(time.RFC3339))
	}
	if c.moved {
		notes = append(notes, own+" is out of use in this pod")
	}
	if c.older {
		notes = append(notes, "does not run what the spec asks for: it may be elsewhere")
	}
	if c.problem != "" {
		cached, notes = "unknown", append(notes, c.problem)
	}
	if notes == nil {
		notes = []string{"-"}
	}
	return []string{c.pod, c.disk, cached, size, valid, strings.Join(notes, "; ")}
}
