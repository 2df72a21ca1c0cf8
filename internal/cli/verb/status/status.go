// Package status implements the plugin's verb that shows each disk of each pod of a CacheNode.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package status

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
	cachestatus "github.com/cachenode/cachenode-operator/internal/status"
)

// options are the command's flags.
type options struct {
	output *output.Flag
	watch  bool
}

// wide is the output format with more columns.
const wide = "wide"

// New returns the command.
func New() *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "status NAME",
		Short: "Show each disk of each pod of a CacheNode",
		Long: `Show each disk of each pod of a CacheNode: the revision that the pod runs, and the disk's state,
its share of the keys, its used space and its hit ratio.

Usage and hit ratio come from the pods' metrics, counted since the agent started.
Reading them needs the right to get pods/proxy. Without it, both columns show "-".
The metrics count a sample of the requests (spec.monitoring.requestSampling): "too few" stands for a hit ratio
until the sample has 30 requests. With requestSampling 100, all are counted, and any number gives a ratio.`,
		Example: `  kubectl cachenode status edge
  kubectl cachenode status edge --watch
  kubectl cachenode status edge -o json`,
		Args: cobra.ExactArgs(1),
	}
	o.output = output.Add(command, "; wide for requests, overflows and file systems too", wide)
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "show it again whenever it has changed, until interrupted")
	flags := connect.Add(command)
	command.ValidArgsFunction = flags.CompleteNames
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := o.output.Check(); err != nil {
			return err
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
				return nil //nolint:nilerr // the user has interrupted the verb
			}
			return err
		}
		if !o.watch {
			return o.write(out, cacheNode, numbers)
		}
		var text bytes.Buffer
		if err := o.write(&text, cacheNode, numbers); err != nil {
			return err
		}
		if text.String() != shown {
			shown = text.String()
			if table.IsTerminal(out) {
				_, _ = fmt.Fprint(out, "\x1b[H\x1b[2J") // moves the cursor home and clears the screen
			}
			if err := o.write(out, cacheNode, numbers); err != nil { // with colours on a terminal
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

// look reads the CacheNode with its status, and the metrics of its pods.
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
	numbers, _ := podmetrics.Read(ctx, cluster, pods) // without metrics, the table shows "-"
	return cacheNode, numbers, nil
}

// sharing returns a text that says how the pods share the keys.
func sharing(r v1alpha1.RoutingStatus) string {
	text := fmt.Sprintf("%d pods share the keys", r.Owners)
	if r.Owners == 1 {
		text = "1 pod has all keys"
	}
	text += fmt.Sprintf("; %s pods know it", r.Applied)
	if r.HandoverUntil != nil {
		text += "; keys that have moved are filled from their previous owners until " +
			r.HandoverUntil.UTC().Format(time.RFC3339)
	}
	return text
}

// write prints the status and the metrics of the pods. It is pure except for the writer.
func (o options) write(out io.Writer, cacheNode *v1alpha1.CacheNode, numbers map[string]podmetrics.Pod) error {
	if o.output.IsForPrograms() {
		return o.output.Write(out, summarize(cacheNode, numbers))
	}
	said := sayConditions(out, cacheNode)
	writeOutdated(out, cacheNode)
	if r := cacheNode.Status.Routing; r != nil {
		say(out, "%s", sharing(*r))
	}
	if c := cacheNode.Status.ListenerCertificate; c != nil {
		say(out, "The certificate of listen.tls is valid until %s", c.NotAfter.UTC().Format(time.RFC3339))
	}
	writeTable(out, cacheNode, numbers, o.output.Value == wide)
	sayOnce := func(where, message string) {
		if message != "" && !strings.Contains(said, message) {
			say(out, "%s: %s", where, message)
		}
	}
	for _, pod := range cacheNode.Status.Pods {
		sayOnce(pod.Name, pod.Message)
		for _, d := range pod.Disks {
			sayOnce(pod.Name+", "+d.Name, d.Message)
		}
	}
	return nil
}

// shown lists the conditions that are printed only if they are true. Ready is always printed. Accepted is printed if it
// is not true; otherwise, only its warnings are printed.
var shown = []string{v1alpha1.ConditionDegraded, v1alpha1.ConditionEvictionsWait}

// sayConditions prints the conditions that a person needs, and warnings. It returns the text that it has printed.
func sayConditions(out io.Writer, cacheNode *v1alpha1.CacheNode) (said string) {
	status := cacheNode.Status
	tell := func(format string, values ...any) {
		text := fmt.Sprintf(format, values...)
		said += text + "\n"
		say(out, "%s", text)
	}
	if status.ObservedGeneration < cacheNode.Generation {
		tell("No operator has looked at the present spec yet: what follows is about an earlier one")
	}
	for _, kind := range append([]string{v1alpha1.ConditionReady, v1alpha1.ConditionAccepted}, shown...) {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c == nil {
			continue
		}
		isTrue := c.Status == metav1.ConditionTrue
		switch warnings, isValid := strings.CutPrefix(c.Message, cachestatus.SpecIsValid+"; "); {
		case kind == v1alpha1.ConditionAccepted && isTrue && isValid:
			tell("Warning: %s", warnings)
		case kind == v1alpha1.ConditionAccepted && isTrue:
		case kind == v1alpha1.ConditionReady, isTrue == slices.Contains(shown, kind):
			tell("%s=%s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return said
}

// maxLine is the maximum length of a line, in bytes.
const maxLine = 32 << 10

// say prints a line without the characters that terminals interpret, because a part of the text comes from pods.
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

// stateOf returns the state and share of a disk in a pod. The status of a pod lists only the disks that are not in
// their planned state.
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
