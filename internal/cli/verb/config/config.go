// Package config implements the plugin's verb that prints the configuration that nginx runs in a pod.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package config

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/podexec"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// New returns the command.
func New() *cobra.Command {
	command := &cobra.Command{
		Use:   "config POD",
		Short: "Print the nginx.conf that a pod runs",
		Long: `Print the nginx.conf that a pod runs. It can differ from what "render" prints: ` +
			`a pod leaves out disks that failed, and has measured its disks
and its memory. It takes the rights to get and create pods/exec.`,
		Example: `  kubectl cachenode config edge-0
  diff <(kubectl cachenode config edge-0) <(kubectl cachenode config edge-1)`,
		Args: cobra.ExactArgs(1),
	}
	flags := connect.Add(command)
	command.ValidArgsFunction = flags.CompletePods
	command.RunE = func(command *cobra.Command, args []string) error {
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		text, err := podexec.Run(command.Context(), cluster, args[0], layout.Container, "cat", layout.ConfigFile)
		if err != nil {
			return err
		}
		return write(command.OutOrStdout(), string(text))
	}
	return command
}

// write prints a pod's file line by line, without the characters that terminals interpret.
func write(out io.Writer, text string) error {
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(out, agentapi.Printable(strings.TrimSuffix(line, "\n"), len(line))); err != nil {
			return err
		}
	}
	return nil
}
