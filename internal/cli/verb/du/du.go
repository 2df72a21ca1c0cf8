// Package du implements the plugin's verb that shows what uses the space of the cache.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package du

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/cli/podobjects"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
	"github.com/cachenode/cachenode-operator/internal/objects"
)

// maxDepth is the maximum number of parts of a path by which objects can be grouped.
const maxDepth = 16

// New returns the command.
func New() *cobra.Command {
	q := objects.Query{}
	command := &cobra.Command{
		Use:   "du CACHENODE",
		Short: "Show which hosts and folders take the space of the cache",
		Long: `Show which hosts, or folders of them, take the space of all disks of all pods, the largest first.
An object that several pods or disks have counts in each of them. Copies in memory do not count.

It needs the rights to get CacheNodes, and to get and create pods/exec.`,
		Example: `  kubectl cachenode du edge
  kubectl cachenode du edge --prefix https://www.example.com/img/ --depth 2
  kubectl cachenode du edge -o json | jq '.all.bytes'`,
		Args: cobra.ExactArgs(1),
	}
	form := output.Add(command, "")
	flags := connect.Add(command)
	f := command.Flags()
	f.StringArrayVar(&q.Target.Prefixes, "prefix", nil, "only URLs that begin with this")
	f.StringArrayVar(&q.Target.Hosts, "host", nil, "only this host")
	f.IntVar(&q.Depth, "depth", 0, "how many parts of the path to tell apart: 0 shows hosts")
	f.IntVar(&q.Groups, "limit", 20, fmt.Sprintf("how many lines to show, 1 to %d", objects.MaxListed/2))
	command.ValidArgsFunction = flags.CompleteNames
	command.RunE = func(command *cobra.Command, args []string) error {
		switch {
		case q.Depth < 0 || q.Depth > maxDepth:
			return fmt.Errorf("--depth is %d, want 0 to %d", q.Depth, maxDepth)
		case q.Groups < 1 || q.Groups > objects.MaxListed/2:
			return fmt.Errorf("--limit is %d, want 1 to %d", q.Groups, objects.MaxListed/2)
		}
		if err := form.Check(); err != nil {
			return err
		}
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		q.Target = q.Target.OrEverything()
		return run(command.Context(), cluster, args[0], q, form, command.OutOrStdout())
	}
	return command
}

// usage is the verb's output for programs.
type usage struct {
	Groups []objects.Group `json:"groups"`
	// All is the sum of all objects that match, including those in groups that are not listed.
	All objects.Total `json:"all"`
	// Problems says what is missing from the result. If there are problems, the exit code is 1.
	Problems []string `json:"problems,omitempty"`
}

func run(
	ctx context.Context, cluster *connect.Cluster, name string, q objects.Query, form *output.Flag, out io.Writer,
) error {
	asked := q
	asked.Groups *= 2 // ask for more, because a group that is small on one disk may be large in total
	stores, problems, err := podobjects.Ask(ctx, cluster, name, asked)
	if err != nil {
		return err
	}
	groups, total := merge(stores, q.Groups)
	if form.IsForPrograms() {
		if err := form.Write(out, usage{groups, total, problems}); err != nil {
			return err
		}
		return podobjects.Incomplete(problems)
	}
	t := table.New(out, -1, "NAME", "OBJECTS", "FILES", "SIZE", "SHARE")
	for _, g := range append(groups, objects.Group{Name: "all", Total: total}) {
		share := "-"
		if total.Bytes > 0 {
			share = fmt.Sprintf("%.1f%%", 100*float64(g.Bytes)/float64(total.Bytes))
		}
		size := podobjects.Size(g.Bytes)
		t.Row(g.Name, humanize.Comma(g.Objects), humanize.Comma(g.Files), size, share)
	}
	t.Write()
	return podobjects.Incomplete(problems)
}

// merge adds up the cached objects of all disks. It returns the largest groups, and the total.
func merge(stores []podobjects.Store, most int) (groups []objects.Group, total objects.Total) {
	byName := map[string]objects.Total{}
	for _, s := range stores {
		if s.IsMemory() {
			continue
		}
		total.Add(s.Total)
		for _, g := range s.Groups {
			sum := byName[g.Name]
			sum.Add(g.Total)
			byName[g.Name] = sum
		}
	}
	groups = make([]objects.Group, 0, len(byName)) // programs get an empty list, not null
	for name, sum := range byName {
		groups = append(groups, objects.Group{Name: name, Total: sum})
	}
	slices.SortFunc(groups, objects.CompareGroups)
	return groups[:min(len(groups), most)], total
}
