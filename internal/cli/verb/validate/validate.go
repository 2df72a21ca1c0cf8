// Package validate implements the plugin's verb that checks whether the operator would accept the CacheNodes in
// files.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package validate

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/sites"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

// New returns the command.
func New() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "validate -f FILE...",
		Short: "Check whether the API server and the operator would accept a CacheNode and its routes",
		Long: `Check whether the API server and the operator would accept the CacheNodes in files:
the schema, the CEL rules, and the operator's own checks.
Also check what the operator would say about the Gateways, HTTPRoutes and CachePolicies in the files,
if a CacheNode in the files has spec.gateways. A warning says what is assumed about objects that are missing.

The command needs no cluster, so it does not check Secrets, nodes and names that are taken.
It warns of what an operator with default flags does not allow.
Each error goes to standard error with the path of its field, and the exit code is 1.
With -o json, standard output has a list of files, each with "errors", or "cacheNodes" and their "warnings",
and with the valid "gateways", "routes" and "policies".`,
		Example: `  kubectl cachenode validate -f edge.yaml
  kustomize build . | kubectl cachenode validate -f -
  kubectl cachenode validate -f edge.yaml -f routes/`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := command.Flags()
	flags.StringSliceVarP(&o.paths, "filename", "f", nil,
		"a file with CacheNodes, as YAML or JSON, or a folder of such files; - reads standard input; "+
			"may be given more than once")
	flags.StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault, "the namespace of objects that name none")
	_ = command.MarkFlagRequired("filename") // fails only for a flag that does not exist
	form := output.Add(command, "")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := form.Check(); err != nil {
			return err
		}
		results, warnings, err := o.check(command.InOrStdin())
		if err != nil {
			return err
		}
		for _, warning := range warnings {
			output.Remark(command.ErrOrStderr(), "warning", warning)
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

// options are the command's flags.
type options struct {
	paths     []string
	namespace string
}

// result is the result for one file. The verb's output for programs is a list of results.
type result struct {
	File string `json:"file"`
	// Errors are the reasons why the file would not be accepted.
	Errors     []string    `json:"errors,omitempty"`
	CacheNodes []cacheNode `json:"cacheNodes,omitempty"`
	// Gateways, Routes and Policies are the names of the valid Gateways, HTTPRoutes and CachePolicies.
	Gateways []string `json:"gateways,omitempty"`
	Routes   []string `json:"routes,omitempty"`
	Policies []string `json:"policies,omitempty"`
}

// cacheNode is a valid CacheNode.
type cacheNode struct {
	Name     string   `json:"name"`
	Warnings []string `json:"warnings,omitempty"`
}

// check checks the files. If a path is -, it reads from in. The warnings say what is assumed about missing objects.
func (o options) check(in io.Reader) (results []result, warnings []string, err error) {
	files, err := file.Paths(o.paths)
	if err != nil {
		return nil, nil, err
	}
	var all file.Objects
	valid := true
	for _, path := range files {
		r := result{File: path}
		before, known := len(all.CacheNodes), all.Len()
		err := all.Add(path, o.namespace, in)
		if err == nil && all.Len() == known && slices.Contains(o.paths, path) {
			err = errors.New("no CacheNode in it")
		}
		if err != nil {
			r.Errors, valid = messages(err), false
		}
		for _, c := range all.CacheNodes[before:] {
			r.CacheNodes = append(r.CacheNodes, cacheNode{Name: c.Name, Warnings: warningsOf(c)})
		}
		results = append(results, r)
	}
	if !valid {
		return results, nil, nil
	}
	if len(all.CacheNodes) == 0 {
		return nil, nil, fmt.Errorf("%s: no CacheNode in it: add its file with another --filename",
			strings.Join(o.paths, ", "))
	}
	return results, addRoutes(results, all), nil
}

func warningsOf(c *v1alpha1.CacheNode) (warnings []string) {
	for _, problem := range validation.DefaultPolicy().Violations(c) {
		warnings = append(warnings, fmt.Sprintf("by the operator's default policy: %v", problem))
	}
	if sites.Own(c.Spec).IsEmpty() {
		warnings = append(warnings, "spec.origin is not set: an operator without spec.gateways does not accept this "+
			"CacheNode, so set it before a rollback to such an operator")
	}
	return append(warnings, validation.Warnings(c)...)
}

// addRoutes adds the Gateways, HTTPRoutes and CachePolicies to the results of their files, with their problems.
func addRoutes(results []result, all file.Objects) (warnings []string) {
	problems := map[file.ID][]string{}
	for _, c := range all.CacheNodes {
		decided, assumed := all.Routes(c, "cluster.local")
		warnings = append(warnings, assumed...)
		for _, p := range decided.Problems() {
			id := file.ID{Kind: p.Kind, NamespacedName: p.Object}
			if p.Ignored {
				warnings = append(warnings, fmt.Sprintf("%s: %s", id, p.Text))
				continue
			}
			problems[id] = append(problems[id], p.Text)
		}
	}
	byName := func(a, b file.ID) int { return strings.Compare(a.String(), b.String()) }
	for _, id := range slices.SortedFunc(maps.Keys(all.Files), byName) {
		r := &results[slices.IndexFunc(results, func(r result) bool { return r.File == all.Files[id] })]
		for _, p := range problems[id] {
			r.Errors = append(r.Errors, fmt.Sprintf("%s: %s", id, p))
		}
		switch {
		case len(problems[id]) > 0:
		case id.Kind == "Gateway":
			r.Gateways = append(r.Gateways, id.NamespacedName.String())
		case id.Kind == "CachePolicy":
			r.Policies = append(r.Policies, id.NamespacedName.String())
		default:
			r.Routes = append(r.Routes, id.NamespacedName.String())
		}
	}
	return warnings
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
				output.Remark(warnings, "warning", fmt.Sprintf("%s: %s: %s", r.File, c.Name, warning))
			}
			_, _ = fmt.Fprintf(out, "%s: %s is valid\n", r.File, c.Name)
		}
		for _, name := range r.Gateways {
			_, _ = fmt.Fprintf(out, "%s: Gateway %s is valid\n", r.File, name)
		}
		for _, name := range r.Routes {
			_, _ = fmt.Fprintf(out, "%s: HTTPRoute %s is valid\n", r.File, name)
		}
		for _, name := range r.Policies {
			_, _ = fmt.Fprintf(out, "%s: CachePolicy %s is valid\n", r.File, name)
		}
	}
	return errors.Join(problems...)
}

// messages returns the message of each of the joined errors.
func messages(err error) (list []string) {
	for _, e := range file.Problems(err) {
		list = append(list, e.Error())
	}
	return list
}
