// Package status is the plugin's verb that shows each disk of each pod of a CacheNode.
package status

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
)

// New makes the command.
func New() *cobra.Command {
	command := &cobra.Command{
		Use:   "status NAME",
		Short: "Show each disk of each pod of a CacheNode",
		Long: `Show each disk of each pod of a CacheNode: the revision that the pod runs, the disk's state and share of the keys, how much
of it is in use, and the share of its requests that were HITs. What is in use and the hit ratio are asked of the pods'
metrics by way of the API server, since the agent started; that takes the right to get pods/proxy, and "-" stands where
it is missing.`,
		Example: "  kubectl cachenode status edge",
		Args:    cobra.ExactArgs(1),
	}
	flags := connect.Add(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		return run(command.Context(), cluster, args[0], command.OutOrStdout())
	}
	return command
}

func run(ctx context.Context, cluster *connect.Cluster, name string, out io.Writer) error {
	node := &v1alpha1.CacheNode{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, node); err != nil {
		return err
	}
	var pods []string
	for _, p := range node.Status.Pods {
		pods = append(pods, p.Name)
	}
	return write(out, node, podmetrics.Read(ctx, cluster, pods))
}

// write writes what the status and the pods' numbers say. It is pure but for the writer.
func write(out io.Writer, node *v1alpha1.CacheNode, numbers map[string]podmetrics.Pod) error {
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAccepted, v1alpha1.ConditionDegraded} {
		c := meta.FindStatusCondition(node.Status.Conditions, kind)
		if c == nil {
			continue
		}
		if kind == v1alpha1.ConditionReady || (kind == v1alpha1.ConditionDegraded) == (c.Status == "True") {
			_, _ = fmt.Fprintf(out, "%s=%s (%s): %s\n", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "POD\tNODE\tREVISION\tDISK\tSTATE\tSHARE\tUSED\tHIT RATIO")
	for _, pod := range node.Status.Pods {
		for _, disk := range node.Status.Disks {
			state, share := stateOf(pod, disk)
			used, ratio := "-", "-"
			if n, ok := numbers[pod.Name][disk.Name]; ok {
				used, ratio = n.Used(), n.HitRatio()
			}
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", pod.Name, orDash(pod.Node), orDash(pod.Revision), disk.Name, state, share, used, ratio)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, pod := range node.Status.Pods {
		if pod.Message != "" {
			_, _ = fmt.Fprintf(out, "%s: %s\n", pod.Name, pod.Message)
		}
		for _, d := range pod.Disks {
			if d.Message != "" {
				_, _ = fmt.Fprintf(out, "%s, %s: %s\n", pod.Name, d.Name, d.Message)
			}
		}
	}
	return nil
}

// stateOf is the state and share of a disk in a pod. The status lists only what is not as planned.
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
	return "Healthy", disk.Share
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
