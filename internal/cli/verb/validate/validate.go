// Package validate implements the plugin's verb that checks whether the operator would accept the CacheNodes in
// files.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package validate

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// New returns the command.
func New() *cobra.Command {
	var filenames []string
	command := &cobra.Command{
		Use:   "validate -f FILE...",
		Short: "Check whether the API server and the operator would accept a CacheNode",
		Long: `Check whether the API server and the operator would accept the CacheNodes in files:
the schema, the CEL rules, and the operator's own checks.

The command needs no cluster, so it does not check Secrets, nodes and names that are taken.
It warns of what an operator with default flags does not allow.
Each error goes to standard error with the path of its field, and the exit code is 1.
With -o json, standard output has a list of files, each with "errors", or "cacheNodes" and their "warnings".`,
		Example: `  kubectl cachenode validate -f edge.yaml
  kustomize build . | kubectl cachenode validate -f -`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.Flags().StringSliceVarP(&filenames, "filename", "f", nil,
		"a file with CacheNodes, as YAML or JSON; - reads standard input; may be given more than once")
	_ = command.MarkFlagRequired("filename") // fails only for a flag that does not exist
	form := output.Add(command, "")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := form.Check(); err != nil {
			return err
		}
		var results []result
		for _, name := range filenames {
			results = append(results, check(name, command.InOrStdin()))
		}
		if form.IsForPrograms() {
			if err := form.Write(command.OutOrStdout(), results); err != nil {
				return err
			}
			if slices.ContainsFunc(results, func(r result) bool { return len(r.Errors) > 0 }) {
				return output.Exit(1)
			}
			return nil
		}
		return write(command.OutOrStdout(), command.ErrOrStderr(), results)
	}
	return command
}

// result is the result for one file. The verb's output for programs is a list of results.
type result struct {
	File string `json:"file"`
	// Errors are the reasons why the file would not be accepted.
	Errors     []string    `json:"errors,omitempty"`
	CacheNodes []cacheNode `json:"cacheNodes,omitempty"`
}

// cacheNode is a valid CacheNode.
type cacheNode struct {
	Name     string   `json:"name"`
	Warnings []string `json:"warnings,omitempty"`
}

// check checks a file. If the name is -, it reads from in.
func check(name string, in io.Reader) result {
	r := result{File: name}
	cacheNodes, err := file.Read(name, in)
	if err != nil {
		r.Errors = messages(err)
	}
	for _, c := range cacheNodes {
		valid := cacheNode{Name: c.Name}
		for _, problem := range validation.DefaultPolicy().Violations(c) {
			valid.Warnings = append(valid.Warnings, fmt.Sprintf("by the operator's default policy: %v", problem))
		}
		valid.Warnings = append(valid.Warnings, validation.Warnings(c)...)
		r.CacheNodes = append(r.CacheNodes, valid)
	}
	return r
}

// write prints the results for people.
func write(out, warnings io.Writer, results []result) error {
	var problems []error
	for _, r := range results {
		for _, problem := range r.Errors {
			problems = append(problems, fmt.Errorf("%s: %s", r.File, problem))
		}
		for _, c := range r.CacheNodes {
			for _, warning := range c.Warnings {
				_, _ = fmt.Fprintf(warnings, "warning: %s: %s: %s\n", r.File, c.Name, warning)
			}
			_, _ = fmt.Fprintf(out, "%s: %s is valid\n", r.File, c.Name)
		}
	}
	return errors.Join(problems...)
}

// messages returns the message of each of the joined errors.
func messages(err error) (list []string) {
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		return []string{err.Error()}
	}
	for _, e := range all.Unwrap() {
		list = append(list, e.Error())
	}
	return list
}
