// Package status is the plugin's verb that shows each disk of each pod of a CacheNode.
package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
)

// options are the command's flags.
type options struct {
	output string
	watch  bool
}

// New makes the command.
func New() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "status NAME",
		Short: "Show each disk of each pod of a CacheNode",
		Long: `Show each disk of each pod of a CacheNode: the revision that the pod runs, and the disk's state,
its share of the keys, its used space and its hit ratio.

Usage and hit ratio come from the pods' metrics, counted since the agent started.
Reading them needs the right to get pods/proxy. Without it, both columns show "-".`,
		Example: `  kubectl cachenode status edge
  kubectl cachenode status edge --watch
  kubectl cachenode status edge -o json`,
		Args: cobra.ExactArgs(1),
	}
	command.Flags().StringVarP(&o.output, "output", "o", "",
		"json or yaml for programs; wide for requests, overflows and file systems too")
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "show it again whenever it has changed, until interrupted")
	flags := connect.Add(command)
	command.ValidArgsFunction = flags.CompleteNames
	command.RunE = func(command *cobra.Command, args []string) error {
		if !slices.Contains([]string{"", "json", "yaml", "wide"}, o.output) {
			return fmt.Errorf("--output %s: want json, yaml or wide", o.output)
		}
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		return o.run(command.Context(), cluster, args[0], command.OutOrStdout())
	}
	return command
}

// watchInterval is the time between two reads of the status.
const watchInterval = 2 * time.Second

func (o options) run(ctx context.Context, cluster *connect.Cluster, name string, out io.Writer) error {
	shown := ""
	for {
		cacheNode, numbers, err := look(ctx, cluster, name)
		if err != nil {
			if o.watch && ctx.Err() != nil {
				return nil //nolint:nilerr // the user has seen enough
			}
			return err
		}
		if !o.watch {
			return write(out, cacheNode, numbers, o.output)
		}
		var text bytes.Buffer
		if err := write(&text, cacheNode, numbers, o.output); err != nil {
			return err
		}
		if text.String() != shown {
			shown = text.String()
			if table.IsTerminal(out) {
				_, _ = fmt.Fprint(out, "\x1b[H\x1b[2J") // the cursor home, the screen empty
			}
			if err := write(out, cacheNode, numbers, o.output); err != nil { // with colours on a terminal
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchInterval):
		}
	}
}

// look reads the status, and the pods' numbers.
func look(
	ctx context.Context, cluster *connect.Cluster, name string,
) (*v1alpha1.CacheNode, map[string]podmetrics.Pod, error) {
	cacheNode := &v1alpha1.CacheNode{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, cacheNode); err != nil {
		return nil, nil, err
	}
	var pods []string
	for _, p := range cacheNode.Status.Pods {
		pods = append(pods, p.Name)
	}
	numbers, _ := podmetrics.Read(ctx, cluster, pods) // the table shows "-"
	return cacheNode, numbers, nil
}

// write prints what the status and the pods' numbers say. It is pure except for the writer.
func write(out io.Writer, cacheNode *v1alpha1.CacheNode, numbers map[string]podmetrics.Pod, output string) error {
	switch output {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(summarize(cacheNode, numbers))
	case "yaml":
		text, err := yaml.Marshal(summarize(cacheNode, numbers))
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAccepted, v1alpha1.ConditionDegraded} {
		c := meta.FindStatusCondition(cacheNode.Status.Conditions, kind)
		if c == nil {
			continue
		}
		if kind == v1alpha1.ConditionReady || (kind == v1alpha1.ConditionDegraded) == (c.Status == "True") {
			say(out, "%s=%s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	writeOutdated(out, cacheNode)
	if r := cacheNode.Status.Routing; r != nil {
		text := fmt.Sprintf("%d pods share the keys; %s pods know it", r.Owners, r.Applied)
		if r.HandoverUntil != nil {
			text += "; keys that have moved are filled from their previous owners until " +
				r.HandoverUntil.UTC().Format(time.RFC3339)
		}
		say(out, "%s", text)
	}
	writeTable(out, cacheNode, numbers, output == "wide")
	for _, pod := range cacheNode.Status.Pods {
		if pod.Message != "" {
			say(out, "%s: %s", pod.Name, pod.Message)
		}
		for _, d := range pod.Disks {
			if d.Message != "" {
				say(out, "%s, %s: %s", pod.Name, d.Name, d.Message)
			}
		}
	}
	return nil
}

// maxLine limits a line, in bytes.
const maxLine = 32 << 10

// say prints a line without the characters that terminals act on, because a part of the text comes from pods.
func say(out io.Writer, format string, values ...any) {
	_, _ = fmt.Fprintln(out, agentapi.Printable(fmt.Sprintf(format, values...), maxLine))
}

func writeTable(out io.Writer, cacheNode *v1alpha1.CacheNode, numbers map[string]podmetrics.Pod, wide bool) {
	columns := []string{"POD", "NODE", "REVISION", "DISK", "STATE", "SHARE", "USED", "HIT RATIO"}
	if wide {
		columns = append(columns, "REQUESTS", "OVERFLOWS", "FILE SYSTEM")
	}
	if cacheNode.Status.Routing != nil {
		columns = slices.Insert(columns, 3, "KEYS")
	}
	rows := table.New(out, slices.Index(columns, "STATE"), columns...)
	for _, pod := range cacheNode.Status.Pods {
		for _, disk := range cacheNode.Status.Disks {
			state, share := stateOf(pod, disk)
			n, known := numbers[pod.Name].Disks[disk.Name]
			used, ratio, requests, overflows := "-", "-", "-", "-"
			if known {
				used, ratio = n.Used(), n.HitRatio()
				requests, overflows = fmt.Sprintf("%.0f", n.All()), fmt.Sprintf("%.0f", n.Overflows)
			}
			cells := []string{pod.Name, orDash(pod.Node), orDash(pod.Revision), disk.Name, state, share, used, ratio}
			if cacheNode.Status.Routing != nil {
				cells = slices.Insert(cells, 3, orDash(pod.Share))
			}
			if wide {
				cells = append(cells, requests, overflows, orDash(disk.FileSystem))
			}
			rows.Row(cells...)
		}
	}
	rows.Write()
}

// stateOf returns the state and share of a disk in a pod. The status lists only the disks that are not as planned.
func stateOf(pod v1alpha1.PodStatus, disk v1alpha1.DiskStatus) (state, share string) {
	for _, d := range pod.Disks {
		if d.Name != disk.Name {
			continue
		}
		if d.Reason != "" {
			return d.State + " (" + d.Reason + ")", d.Share
		}
		return d.State, d.Share
	}
	if pod.Revision == "" {
		return "-", "-"
	}
	return string(v1alpha1.DiskHealthy), disk.Share
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
