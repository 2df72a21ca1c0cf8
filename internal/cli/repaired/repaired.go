// Package repaired is the plugin's verb by which a person says that the disks of a pod are repaired.
package repaired

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// New makes the command.
func New() *cobra.Command {
	command := &cobra.Command{
		Use:   "repaired POD DISK...",
		Short: "Say that disks of a pod are repaired, so that they can come back",
		Long: `Say that disks of a pod are repaired. A file system that was shut down stays dead as long as the pod has it mounted:
the operator evicts the pod once, as its disruption budget allows. Mount the disk on the node as soon as the pod is gone;
the new pod waits for it. A disk that was full, slow or read-only comes back by itself and needs none of this.

The same can be said without this program: the annotation ` + naming.AnnotationRepaired + ` on the pod names the disks.`,
		Example: "  kubectl cachenode repaired edge-1 disk2",
		Args:    cobra.MinimumNArgs(2),
	}
	flags := connect.Add(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		return run(command.Context(), cluster, args[0], args[1:], command.OutOrStdout())
	}
	return command
}

func run(ctx context.Context, cluster *connect.Cluster, name string, disks []string, out io.Writer) error {
	pod := &corev1.Pod{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name}, pod); err != nil {
		return err
	}
	if pod.Labels[naming.LabelManagedBy] != naming.FieldManager {
		return fmt.Errorf("pod %s is no CacheNode's", name)
	}
	for _, disk := range disks {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == disk && v.PersistentVolumeClaim != nil }) {
			return fmt.Errorf("pod %s has no disk %q", name, disk)
		}
	}
	before := pod.DeepCopy()
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[naming.AnnotationRepaired] = strings.Join(disks, ",")
	if err := cluster.Patch(ctx, pod, client.MergeFrom(before), client.FieldOwner("kubectl-cachenode")); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "pod/%s will be evicted once, if %s cannot come back without; mount what is repaired when it is gone\n", name, strings.Join(disks, ", "))
	return err
}
