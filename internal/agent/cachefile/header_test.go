package cachefile_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
)

// written returns a cache file like the files that nginx writes, after the function change has changed it.
func written(change func(fixed []byte) []byte) []byte {
	rest := []byte("\nKEY: http://www.example.com/a\nHTTP/1.1 200 OK\r\nCache-Tag: a,b\r\n\r\n")
	fixed := make([]byte, 336)
	binary.LittleEndian.PutUint64(fixed, cachefile.Version)
	binary.LittleEndian.PutUint64(fixed[8:], 1000)
	binary.LittleEndian.PutUint64(fixed[40:], 900)
	binary.LittleEndian.PutUint16(fixed[54:], uint16(336+bytes.Index(rest, []byte("HTTP/"))))
	binary.LittleEndian.PutUint16(fixed[56:], uint16(336+len(rest)))
	file := append(append(fixed, rest...), "the body"...)
	return change(file)
}

func same(file []byte) []byte { return file }

func TestRead(t *testing.T) {
	t.Parallel()
	h, err := cachefile.Read(bytes.NewReader(written(same)))
	must(t, err)
	if h.Key != "http://www.example.com/a" || h.ValidUntil.Unix() != 1000 || h.Received.Unix() != 900 || h.Vary != "" {
		t.Errorf("read %+v", h)
	}
	if tags := h.Values("Cache-Tag"); len(tags) != 1 || tags[0] != "a,b" {
		t.Errorf("the tags are %q", tags)
	}
	for name, change := range map[string]func([]byte) []byte{
		"empty":                 func([]byte) []byte { return nil },
		"cut in the fixed part": func(f []byte) []byte { return f[:300] },
		"cut in the key":        func(f []byte) []byte { return f[:350] },
		"no key": func(f []byte) []byte {
			copy(f[336:], "\nKAY: ")
			return f
		},
		"a key without an end": func(f []byte) []byte {
			return bytes.Replace(f, []byte("/a\n"), []byte("/ab"), 1)
		},
		"the body before the header": func(f []byte) []byte {
			binary.LittleEndian.PutUint16(f[56:], 340)
			return f
		},
		"a Vary that is too long": func(f []byte) []byte {
			f[187] = 129
			return f
		},
	} {
		if h, err := cachefile.Read(bytes.NewReader(written(change))); !errors.Is(err, cachefile.ErrDamaged) {
			t.Errorf("%s: read %+v (%v)", name, h, err)
		}
	}
}

// TestStale checks that Stale is the longer of the two times in the file, and that values out of range are limited.
func TestStale(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		updating, onError int64
		want              time.Duration
	}{
		"none":                    {0, 0, 0},
		"while it is renewed":     {60, 0, time.Minute},
		"on errors":               {60, 90, 90 * time.Second},
		"for ever":                {0, math.MaxInt64, cachefile.MaxStale},
		"negative, as if damaged": {-5, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := cachefile.Read(bytes.NewReader(written(func(f []byte) []byte {
				binary.LittleEndian.PutUint64(f[16:], uint64(tt.updating))
				binary.LittleEndian.PutUint64(f[24:], uint64(tt.onError))
				return f
			})))
			must(t, err)
			if h.Stale != tt.want {
				t.Errorf("stale for %s, want %s", h.Stale, tt.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, written(same), 0o600))
	must(t, cachefile.Stamp(path))
	text, err := os.ReadFile(path)
	must(t, err)
	if want := written(func(f []byte) []byte { clear(f[:8]); return f }); !bytes.Equal(text, want) {
		t.Error("a stamp changes more than the version")
	}
	if _, err := cachefile.Read(bytes.NewReader(text)); !errors.Is(err, cachefile.ErrVersion) {
		t.Errorf("a stamped file: %v", err)
	}
	if err := cachefile.Expire(path, time.Unix(0, 0)); !errors.Is(err, cachefile.ErrVersion) {
		t.Errorf("expire a stamped file: %v", err)
	}
	after, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(text, after) {
		t.Error("a file of another version was changed")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(written(same))
	f.Add(written(func(file []byte) []byte { return file[:400] }))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := cachefile.Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		if !bytes.Contains(file, []byte("\nKEY: "+h.Key+"\n")) {
			t.Errorf("the key %q is not in the file", h.Key)
		}
		h.Values("Cache-Tag")
		if length, ok := h.Length(); length < 0 && ok {
			t.Errorf("the body has %d bytes", length)
		}
	})
}

func TestConditional(t *testing.T) {
	t.Parallel()
	always := func(validUntil, received time.Time) bool { return validUntil.Unix() == 1000 && received.Unix() == 900 }
	never := func(time.Time, time.Time) bool { return false }
	stamp := func(is cachefile.Condition) func(string) (cachefile.Result, int64, error) {
		return func(path string) (cachefile.Result, int64, error) { return cachefile.StampIf(path, is) }
	}
	expire := func(is cachefile.Condition) func(string) (cachefile.Result, int64, error) {
		return func(path string) (cachefile.Result, int64, error) {
			return cachefile.ExpireIf(path, time.Unix(950, 0), is)
		}
	}
	at := func(offset int, number uint64) func([]byte) []byte {
		return func(f []byte) []byte { binary.LittleEndian.PutUint64(f[offset:], number); return f }
	}
	for name, test := range map[string]struct {
		before, after func([]byte) []byte
		do            func(string) (cachefile.Result, int64, error)
		want          cachefile.Result
	}{
		"stamp":           {same, at(0, 0), stamp(always), cachefile.Changed},
		"expire":          {same, at(8, 950), expire(always), cachefile.Changed},
		"kept":            {same, same, stamp(never), cachefile.Kept},
		"kept as fresh":   {same, same, expire(never), cachefile.Kept},
		"stamped before":  {at(0, 0), at(0, 0), stamp(always), cachefile.Unused},
		"another version": {at(0, 6), at(0, 6), expire(always), cachefile.Unused},
		"cut":             {cut, cut, stamp(always), cachefile.Unused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "file")
			must(t, os.WriteFile(path, written(test.before), 0o600))
			got, size, err := test.do(path)
			must(t, err)
			text, err := os.ReadFile(path)
			must(t, err)
			if got != test.want || !bytes.Equal(text, written(test.after)) {
				t.Errorf("%d, want %d; the file is\n%q", got, test.want, text)
			}
			if want := int64(len(text)); got == cachefile.Changed && size != want {
				t.Errorf("the size is %d, want %d", size, want)
			}
			if got, _, err := test.do(path + "-none"); got != cachefile.Gone || err != nil {
				t.Errorf("without a file: %d, %v", got, err)
			}
		})
	}
}

func TestRemoveUnused(t *testing.T) {
	t.Parallel()
	stamped := func(file []byte) []byte { clear(file[:8]); return file }
	for name, test := range map[string]struct {
		change func([]byte) []byte
		stays  bool
	}{
		"used":    {same, true},
		"stamped": {stamped, false},
		"cut":     {cut, false},
	} {
		path := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(path, written(test.change), 0o600))
		must(t, cachefile.RemoveUnused(path))
		if _, err := os.Stat(path); (err == nil) != test.stays {
			t.Errorf("%s: stays is %t, want %t", name, err == nil, test.stays)
		}
		must(t, cachefile.RemoveUnused(path+"-none"))
	}
}

func cut(file []byte) []byte { return file[:40] }
