// Package ls implements the plugin's verb that lists cached objects.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package ls

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/podobjects"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
	"github.com/cachenode/cachenode-operator/internal/objects"
)

// options are the flags of the verb.
type options struct {
	query  objects.Query
	sort   string
	output string
}

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "ls CACHENODE [URL...]",
		Short: "List cached objects",
		Long: `List what the disks and the memory of all pods have cached, as far as their indexes know.
Without URLs and flags, that is everything. Flags can be repeated and combined.

An object is listed once, with all places that have it.
Its files are its variants and slices; its size is that of all files together, in the place that has most of it.

It needs the rights to get CacheNodes, and to get and create pods/exec.`,
		Example: `  kubectl cachenode ls edge --sort size --limit 20
  kubectl cachenode ls edge --prefix https://www.example.com/img/
  kubectl cachenode ls edge --tag article-17 -o json`,
		Args: cobra.MinimumNArgs(1),
	}
	flags := connect.Add(command)
	f := command.Flags()
	f.StringArrayVar(&o.query.Target.Prefixes, "prefix", nil,
		"URLs that begin with this, such as https://example.com/img/")
	f.StringArrayVar(&o.query.Target.Hosts, "host", nil, "all objects of a host, such as www.example.com")
	f.StringArrayVar(&o.query.Target.Tags, "tag", nil, "objects with this tag (Surrogate-Key or Cache-Tag)")
	f.StringVar(&o.sort, "sort", string(objects.ByKey), "what comes first: key, size (the largest) or age (the oldest)")
	f.IntVar(&o.query.Most, "limit", 100, fmt.Sprintf("how many objects to list, 1 to %d", objects.MaxListed))
	f.StringVarP(&o.output, "output", "o", "table", "table, or json for one JSON object a line")
	command.ValidArgsFunction = flags.CompleteNames
	for flag, values := range map[string][]string{
		"sort": {string(objects.ByKey), string(objects.BySize), string(objects.ByAge)}, "output": {"table", "json"},
	} {
		_ = command.RegisterFlagCompletionFunc(flag, // fails only for a flag that does not exist
			cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		o.query.Target.URLs = args[1:]
		if err := o.check(); err != nil {
			return err
		}
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		return o.run(command.Context(), cluster, args[0], command.OutOrStdout(), command.ErrOrStderr())
	}
	return command
}

// check returns an error for mistakes in the flags, and completes the query.
func (o *options) check() error {
	o.query.Sort = objects.Order(o.sort)
	switch {
	case !slices.Contains(objects.Orders, o.query.Sort):
		return fmt.Errorf("--sort is %q, want key, size or age", o.sort)
	case o.query.Most < 1 || o.query.Most > objects.MaxListed:
		return fmt.Errorf("--limit is %d, want 1 to %d", o.query.Most, objects.MaxListed)
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output is %q, want table or json", o.output)
	}
	o.query.Target = o.query.Target.OrEverything()
	return nil
}

func (o *options) run(
	ctx context.Context, cluster *connect.Cluster, name string, out, errout io.Writer,
) error {
	stores, problems, err := podobjects.Ask(ctx, cluster, name, o.query)
	if err != nil {
		return err
	}
	rows, total := merge(stores, o.query)
	if o.output == "json" {
		for _, r := range rows {
			if err := json.NewEncoder(out).Encode(r); err != nil {
				return err
			}
		}
	} else {
		write(out, rows, time.Now())
	}
	_, _ = fmt.Fprintf(errout, "%d objects are listed; all places together have %s that match, in %s files, %s\n",
		len(rows), humanize.Comma(total.Objects), humanize.Comma(total.Files), podobjects.Size(total.Bytes))
	return podobjects.Incomplete(problems)
}

// row is an object with the names of all stores that have cached it.
type row struct {
	objects.Object
	Where []string `json:"where"`
}

// merge joins the listings of all stores. Each store lists as many objects as are wanted in total, so no object is
// missing from the result.
func merge(stores []podobjects.Store, q objects.Query) (rows []row, total objects.Total) {
	byKey := map[string]row{}
	for _, s := range stores {
		total.Add(s.Total)
		for _, o := range s.Objects {
			r, known := byKey[o.Key]
			if !known || o.Bytes > r.Bytes {
				r.Object = o
			}
			r.Where = append(r.Where, s.Where())
			byKey[o.Key] = r
		}
	}
	for _, r := range byKey {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return q.Sort.Compare(a.Object, b.Object) })
	return rows[:min(len(rows), q.Most)], total
}

func write(out io.Writer, rows []row, now time.Time) {
	t := table.New(out, -1, "KEY", "SIZE", "FILES", "AGE", "FRESH", "WHERE", "TAGS")
	for _, r := range rows {
		fresh := "no"
		if left := r.ValidUntil.Sub(now); left > 0 {
			fresh = duration.HumanDuration(left)
		}
		t.Row(r.Key, podobjects.Size(r.Bytes), humanize.Comma(r.Files),
			duration.HumanDuration(now.Sub(r.Received)), fresh, strings.Join(r.Where, " "), strings.Join(r.Tags, " "))
	}
	t.Write()
}
