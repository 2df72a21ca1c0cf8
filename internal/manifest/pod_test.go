package manifest

import (
	"context"
	"errors"
	"os/exec"
	"testing"

	"github.com/cachenode/cachenode-operator/test/await"
)

// TestSupervise checks that the shell ends its program when the shell gets a signal. It also checks that the shell does
// not start the program if the signal comes earlier.
func TestSupervise(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		program, before string
		status          int
	}{
		"while the program runs": {"sh -c 'kill -TERM $PPID; exec sleep 3600'", ":", 128 + 15},
		"before the program":     {"sleep 3600", "kill -TERM $$", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
			defer cancel()
			args := supervise(tt.program, "TERM", tt.before)
			err := exec.CommandContext(ctx, args[0], args[1:]...).Run()
			exit, _ := errors.AsType[*exec.ExitError](err)
			if ctx.Err() != nil || exit == nil || exit.ExitCode() != tt.status {
				t.Errorf("the shell ended with %v, want status %d", err, tt.status)
			}
		})
	}
}
