package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cachenode/cachenode-operator/test/await"
)

// TestEveryAccessWaits reads and writes a file through the mounted folder, and checks that each access takes a seek. It
// needs root.
func TestEveryAccessWaits(t *testing.T) {
	dir, mount := t.TempDir(), t.TempDir()
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(filepath.Join(dir, "disk"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	begun := time.Unix(0, 0)
	clock := clocktesting.NewFakeClock(begun) // each access advances the clock by the access's cost
	commands, send := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(dir, mount, commands, clock)
		_ = commands.CloseWithError(err) // otherwise, a write to the pipe could wait forever
		ended <- err
	}()
	path := filepath.Join(mount, "disk")
	await.Until(t, func() string {
		if _, err := os.Stat(path); err != nil {
			return err.Error()
		}
		return ""
	})
	if _, err := fmt.Fprintln(send, "disk 100ms 0"); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintln(send, "other 0s 0") // when this line is read, the line before it has been carried out

	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4096)
	for _, offset := range []int64{512 << 10, 128 << 10} { // two seeks
		if _, err := f.ReadAt(got, offset); err != nil || !bytes.Equal(got, text[offset:offset+4096]) {
			t.Errorf("read at %d: %v, or wrong bytes", offset, err)
		}
	}
	if _, err := f.WriteAt([]byte("new"), 0); err != nil { // a third
		t.Error(err)
	}
	if waited := clock.Since(begun); waited != 300*time.Millisecond {
		t.Errorf("three seeks of 100 ms took %s", waited)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "disk")); err != nil || string(text[:3]) != "new" {
		t.Errorf("the file begins with %q (%v), want what was written", text[:3], err)
	}
	_ = send.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
