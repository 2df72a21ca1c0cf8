// Command kubectl-cachenode is the kubectl plugin: kubectl cachenode.
//
// It contains only wiring, and imports internal/cli/plugin, which provides the verbs. Each verb is a package below
// internal/cli/verb.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/cli/plugin"
)

var version = "dev" // set by the linker

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := plugin.New(version).ExecuteContext(ctx)
	stop()
	if code, ok := errors.AsType[output.Exit](err); ok {
		os.Exit(int(code))
	}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			_, _ = fmt.Fprint(os.Stderr, "error: ", line)
		}
		_, _ = fmt.Fprintln(os.Stderr)
		os.Exit(1)
	}
}
