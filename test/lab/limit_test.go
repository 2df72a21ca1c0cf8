package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/test/await"
)

// TestLimitCPU checks that the kernel delays a process that never waits, when the process has used its share of a
// processor. It needs root.
func TestLimitCPU(t *testing.T) {
	l, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	cgroup, err := l.Cgroup("busy", 100<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := cgroup.LimitCPU(0.25); err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(t.Context())
	busy := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		kill()
		_ = busy.Wait() // killed
	}()
	if err := cgroup.Add(busy.Process.Pid); err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() string {
		text, err := os.ReadFile(cgroup.file("cpu", "cpu.stat", "cpu.stat"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			number, isIt := strings.CutPrefix(strings.TrimSpace(line), "nr_throttled ")
			if n, err := strconv.Atoi(number); isIt && err == nil && n >= 10 {
				return ""
			}
		}
		return fmt.Sprintf("the process was not held up in 10 periods: %s", text)
	})
	if use, err := cgroup.Use(); err != nil || use.CPU == 0 {
		t.Errorf("%s of processor time is counted: %v", use.CPU, err)
	}
}
