// Package plugin assembles the kubectl plugin from its verbs.
//
// It imports the verbs. For a new verb, add a line here.
package plugin

import (
	"github.com/spf13/cobra"

	"github.com/cachenode/cachenode-operator/internal/cli/verb/config"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/disk"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/drain"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/du"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/explain"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/ls"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/plan"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/purge"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/render"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/routes"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/status"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/top"
	"github.com/cachenode/cachenode-operator/internal/cli/verb/validate"
)

// New returns the command of the plugin. Cobra adds the verb "completion" for bash, zsh and fish.
func New(version string) *cobra.Command {
	command := &cobra.Command{
		Use:           "kubectl-cachenode",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl cachenode"},
		Short:         "Inspect CacheNodes, manage their disks, and list and purge objects",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(
		status.New(), top.New(), explain.New(), routes.New(), config.New(), disk.New(), drain.New(),
		ls.New(), du.New(), purge.New(),
		plan.New(), render.New(), validate.New(),
	)
	return command
}
