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

// dryRun shows how much of what the pods have cached now a purge would match.
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

// dry is the output of a dry run for programs.
type dry struct {
	Pods []dryPod `json:"pods"`
	// Problems says what is missing from the result. If there are problems, the exit code is 1.
	Problems []string `json:"problems,omitempty"`
}

// dryPod contains what the purge would match in a pod, or in all pods for the name "all".
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

// finding contains what a pod has on its disks and in memory.
type finding struct {
	pod           string
	disks, memory objects.Total
}

// findings returns the sums of what the stores have, by pod. The last item is the sum of all pods.
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
