// Command kubectl-cachenode is the kubectl plugin: kubectl cachenode.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cachenode/cachenode-operator/internal/cli/disk"
	"github.com/cachenode/cachenode-operator/internal/cli/plan"
	"github.com/cachenode/cachenode-operator/internal/cli/render"
	"github.com/cachenode/cachenode-operator/internal/cli/status"
)

var version = "dev" // set by the linker

func main() {
	command := &cobra.Command{
		Use:           "kubectl-cachenode",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl cachenode"},
		Short:         "See what becomes of a CacheNode, and look after its disks",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(render.New(), status.New(), plan.New(), disk.New())
	if err := command.Execute(); err != nil {
		for line := range strings.Lines(err.Error()) {
			_, _ = fmt.Fprint(os.Stderr, "error: ", line)
		}
		_, _ = fmt.Fprintln(os.Stderr)
		os.Exit(1)
	}
}
