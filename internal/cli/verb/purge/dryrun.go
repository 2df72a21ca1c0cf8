package purge

import (
	"context"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/podobjects"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// dryRun prints, for each pod, the number and the size of the cached objects that a purge would match now.
func (o *options) dryRun(ctx context.Context, cluster *connect.Cluster, out io.Writer) error {
	stores, problems, err := podobjects.Ask(ctx, cluster, o.spec.CacheNode, objects.Query{Target: purge.TargetOf(o.spec)})
	if err != nil {
		return err
	}
	if o.output.IsForPrograms() {
		if err := o.output.Write(out, dryOutcome(stores, problems)); err != nil {
			return err
		}
		return podobjects.Incomplete(problems)
	}
	t := table.New(out, -1, "POD", "OBJECTS", "FILES", "SIZE", "FILES IN MEMORY")
	for _, f := range findings(stores) {
		size := podobjects.Size(f.disks.Bytes)
		t.Row(f.pod, humanize.Comma(f.disks.Objects), humanize.Comma(f.disks.Files), size, humanize.Comma(f.memory.Files))
	}
	t.Write()
	if _, err := fmt.Fprintln(out, "nothing was purged (dry run)"); err != nil {
		return err
	}
	return podobjects.Incomplete(problems)
}

// dry is the output of --dry-run in the formats for programs.
type dry struct {
	Pods []dryPod `json:"pods"`
	// Problems says what is missing from the result. If there are problems, the exit code is 1.
	Problems []string `json:"problems,omitempty"`
}

// dryPod contains what the purge would match in a pod. If the name is "all", it contains the totals of all pods.
type dryPod struct {
	Name   string        `json:"name"`
	Disks  objects.Total `json:"disks"`
	Memory objects.Total `json:"memory"`
}

func dryOutcome(stores []podobjects.Store, problems []string) dry {
	told := dry{Problems: problems}
	for _, f := range findings(stores) {
		told.Pods = append(told.Pods, dryPod{f.pod, f.disks, f.memory})
	}
	return told
}

// finding contains the totals of what the purge would match in a pod, on the disks and in memory.
type finding struct {
	pod           string
	disks, memory objects.Total
}

// findings returns the totals of each pod's stores. The last item contains the totals of all pods.
func findings(stores []podobjects.Store) (list []finding) {
	all := finding{pod: "all"}
	for _, s := range stores { // the stores of a pod are adjacent
		if n := len(list); n == 0 || list[n-1].pod != s.Pod {
			list = append(list, finding{pod: s.Pod})
		}
		for _, f := range []*finding{&list[len(list)-1], &all} {
			if s.IsMemory() {
				f.memory.Add(s.Total)
			} else {
				f.disks.Add(s.Total)
			}
		}
	}
	return append(list, all)
}
