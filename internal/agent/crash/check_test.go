package crash

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/agent/cachefile"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const bodySize = 100_000

// file returns a cache file. The body has the given number of bytes, and the header states a length of bodySize bytes.
func file(key string, body int) []byte {
	rest := fmt.Sprintf("\nKEY: %s\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", key, bodySize)
	fixed := make([]byte, 336)
	binary.LittleEndian.PutUint64(fixed, cachefile.Version)
	binary.LittleEndian.PutUint16(fixed[54:], uint16(336+len("\nKEY: \n")+len(key)))
	binary.LittleEndian.PutUint16(fixed[56:], uint16(336+len(rest)))
	return append(append(fixed, rest...), bytes.Repeat([]byte("x"), body)...)
}

// TestCheck checks that Check opens the files of the last two minutes and removes the cut files among them. It must
// neither open nor remove older files. If a check is interrupted, the next check must find the remaining files.
func TestCheck(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	crashed := time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC) // the folders are younger
	now := crashed.Add(time.Hour)
	number := 0
	store := func(before time.Duration, text []byte) string {
		number++
		f := cachekey.File{byte(number), 15: byte(number)} // each in a folder of its own
		path := filepath.Join(folder, f.Path())
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, text, 0o600))
		must(t, os.Chtimes(path, time.Time{}, crashed.Add(-before)))
		return path
	}
	kept := []string{
		store(0, file("whole", bodySize)), store(time.Minute, file("whole too", bodySize)),
		store(3*time.Minute, file("old", 9)), store(time.Hour, nil), store(24*time.Hour, []byte("damaged")),
	}
	removed := []string{
		store(0, nil), store(time.Second, file("cut", bodySize-1)), store(119*time.Second, file("cut", 0)),
		store(time.Minute, file("cut", bodySize)[:350]),
	}
	hole := store(0, file("with a hole", 0))
	must(t, os.Truncate(hole, int64(len(file("with a hole", bodySize)))))
	must(t, os.Chtimes(hole, time.Time{}, crashed))
	removed = append(removed, hole)

	usable := func() bool { return true }
	isThere := func(path string) bool { _, err := os.Stat(path); return err == nil }
	unscathed := func() bool {
		return !slices.ContainsFunc(removed, func(path string) bool { return !isThere(path) })
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ended, now, folder, usable); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: %v", err)
	}
	all, err := Check(t.Context(), now, t.TempDir(), usable)
	if diff := cmp.Diff(Result{}, all); diff != "" || err != nil {
		t.Errorf("an empty disk: %v\n%s", err, diff)
	}
	first, err := Check(t.Context(), now, folder, unscathed)
	if !errors.Is(err, errUnusable) || first.Removed != 1 {
		t.Errorf("the disk has failed meanwhile: %+v (%v)", first, err)
	}
	second, err := Check(t.Context(), now, folder, usable)
	must(t, err)
	if got := first.Removed + second.Removed; got != len(removed) {
		t.Errorf("%d files were removed, want %d", got, len(removed))
	}
	if want := 2 + second.Removed; second.Opened != want {
		t.Errorf("%d files were opened, want %d", second.Opened, want)
	}
	for _, path := range kept {
		if !isThere(path) {
			t.Errorf("%s was removed", path)
		}
	}
	for _, path := range removed {
		if isThere(path) {
			t.Errorf("%s is still there", path)
		}
	}
}
