package agent

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// TestDisksInUse checks that a restarted agent knows which disks nginx may use. After an interrupted reload, these are
// the disks from before the reload and the disks from after it. After a completed reload, they are only the disks of
// the new configuration.
func TestDisksInUse(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(root+layout.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	start := func() *conductor {
		c := &conductor{Agent: New(Paths{Root: root}, &reload.Nginx{Root: root}, slog.New(slog.DiscardHandler), "test",
			clock.RealClock{})}
		c.assumeInUse()
		return c
	}
	file := root + layout.DisksInUse
	isNoted := func(want string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil || string(text) != want {
			t.Errorf("noted is %s, %v, want %s", text, err, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := start()
	must(c.noteDisks([]string{"disk2", "disk1", "disk2"}))
	isNoted(`["disk1","disk2"]`)
	if c = start(); !slices.Equal(c.noted, []string{"disk1", "disk2"}) { // nginx may start with these disks
		t.Errorf("nginx does not run yet, and may use %v", c.noted)
	}
	master := runAsNginx(t)
	must(os.WriteFile(root+layout.PIDFile, []byte(strconv.Itoa(master)), 0o600))
	c = start()
	if diff := cmp.Diff([]string{"disk1", "disk2"}, c.noted); diff != "" {
		t.Error(diff)
	}
	must(c.take(applied{used: []string{"disk2"}}))
	isNoted(`["disk2"]`)
	must(os.Remove(file))
	must(c.take(applied{used: []string{"disk2"}}))
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("what has not changed is written again: %v", err)
	}
	must(c.take(applied{}))
	isNoted(`[]`)
	must(os.WriteFile(file, []byte(`["disk`), 0o600))
	if c = start(); c.noted != nil {
		t.Errorf("from a damaged file, nginx may use %v", c.noted)
	}
}

// runAsNginx runs a program with the name of nginx until the test ends, and returns its process id.
func runAsNginx(t *testing.T) int {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "nginx")
	if err := os.Symlink(sleep, program); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "infinity")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	return command.Process.Pid
}
