// Package validate is the plugin's verb that says whether the operator would accept the CacheNodes in files.
package validate

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// New makes the command.
func New() *cobra.Command {
	var filenames []string
	command := &cobra.Command{
		Use:   "validate -f FILE...",
		Short: "Check whether the API server and the operator would accept a CacheNode",
		Long: `Check whether the API server and the operator would accept the CacheNodes in files:
the schema, the CEL rules, and the operator's own checks.

The command needs no cluster, so it does not check Secrets, nodes and names that are taken.
It warns of what an operator with default flags does not allow.
Each error goes to standard error with the path of its field, and the exit code is 1.`,
		Example: `  kubectl cachenode validate -f edge.yaml
  kustomize build . | kubectl cachenode validate -f -`,
		Args: cobra.NoArgs,
	}
	command.Flags().StringSliceVarP(&filenames, "filename", "f", nil,
		"a file with CacheNodes, as YAML or JSON; - reads standard input; may be given more than once")
	_ = command.MarkFlagRequired("filename") // the flag exists
	command.RunE = func(command *cobra.Command, _ []string) error {
		var problems []error
		for _, name := range filenames {
			cacheNodes, err := file.Read(name, command.InOrStdin())
			if err != nil {
				problems = append(problems, prefixed(name, err))
				continue
			}
			for _, cacheNode := range cacheNodes {
				for _, problem := range validation.DefaultPolicy().Violations(cacheNode) {
					_, _ = fmt.Fprintf(command.ErrOrStderr(), "warning: %s: %s: by the operator's default policy: %v\n",
						name, cacheNode.Name, problem)
				}
				for _, warning := range validation.Warnings(cacheNode) {
					_, _ = fmt.Fprintf(command.ErrOrStderr(), "warning: %s: %s: %s\n", name, cacheNode.Name, warning)
				}
				_, _ = fmt.Fprintf(command.OutOrStdout(), "%s: %s is valid\n", name, cacheNode.Name)
			}
		}
		return errors.Join(problems...)
	}
	return command
}

// prefixed adds the name of the file to each of the errors.
func prefixed(name string, err error) error {
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		return fmt.Errorf("%s: %w", name, err)
	}
	var problems []error
	for _, e := range all.Unwrap() {
		problems = append(problems, fmt.Errorf("%s: %w", name, e))
	}
	return errors.Join(problems...)
}
