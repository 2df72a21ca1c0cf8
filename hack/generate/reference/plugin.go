package main

import (
	"fmt"
	"log"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/plugin"
)

// verbs writes the page about the plugin's verbs. All verbs have the same flags for access to a cluster, so the page
// lists these flags only once.
func verbs() {
	root := plugin.New("")
	fmt.Printf("<!-- Written by hack/generate/reference from the plugin's own help: make generate. -->\n"+
		"# kubectl cachenode\n\n%s.\n", root.Short)
	fmt.Print("\nBuild it with `make build` and put `bin/kubectl-cachenode` into the path. " +
		"With `bin/kubectl_complete-cachenode` beside it, kubectl's own completion completes verbs, flags and their " +
		"values, and the names of CacheNodes, pods, disks, nodes and namespaces; `kubectl-cachenode completion " +
		"bash|zsh|fish` prints one for the program itself.\n" +
		"\nThe exit code is 0, or 1 after an error; `plan --exit-code` has [more](#kubectl-cachenode-plan). " +
		"[Output for programs](plugin-output.md) says what `-o json` has.\n")
	common := &cobra.Command{}
	connect.Add(common)
	for _, verb := range root.Commands() {
		children := verb.Commands()
		if len(children) == 0 {
			children = []*cobra.Command{verb}
		}
		for _, c := range children {
			describeVerb(c, common.Flags())
		}
	}
	fmt.Print("\n## Flags for reaching a cluster\n\n" +
		"Those of kubectl, for every verb that asks one:\n\n| flag | meaning |\n|---|---|\n")
	common.Flags().VisitAll(flagRow)
}

func describeVerb(c *cobra.Command, common *pflag.FlagSet) {
	long := c.Long
	if long == "" {
		log.Fatalf("%s has no long help", c.Name())
	}
	path := strings.TrimPrefix(c.CommandPath(), "kubectl-cachenode ")
	fmt.Printf("\n## %s\n\n```\n%s\n```\n\n%s\n", path, strings.TrimSuffix(c.UseLine(), " [flags]"), long)
	if c.Example != "" {
		fmt.Printf("\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if common.Lookup(f.Name) == nil || common.Lookup(f.Name).Usage != f.Usage {
			own.AddFlag(f)
		}
	})
	if own.HasFlags() {
		fmt.Print("\n| flag | meaning |\n|---|---|\n")
		own.VisitAll(flagRow)
	}
}

func flagRow(f *pflag.Flag) {
	name := "`--" + f.Name + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	usage := strings.ReplaceAll(f.Usage, "|", `\|`)
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" &&
		!strings.HasPrefix(f.DefValue, "/") {
		usage += " (default " + f.DefValue + ")"
	}
	fmt.Printf("| %s | %s |\n", name, usage)
}
