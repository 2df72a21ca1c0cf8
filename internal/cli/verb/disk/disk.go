// Package disk implements the plugin's verbs for single disks of a pod. Each verb sets an annotation on the CacheNode.
// A manifest can set the same annotation. The operator does the work.
//
// It may import the packages of the plugin and all pure packages. New flags of the verbs belong here.
package disk

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// fieldManager is the field manager that owns the annotations. Its name must not begin with kubectl: Flux takes over
// the fields of managers with such a name, and would end a drain that is not in git.
const fieldManager = "cachenode-plugin"

// New returns the command.
func New() *cobra.Command {
	command := &cobra.Command{
		Use:   "disk",
		Short: "Take a disk of a pod out of use, bring it back, or give it another volume",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(
		verb(v1alpha1.Drain, "Take disks of a pod out of use; their files stay",
			`Take disks of a pod out of use.
nginx reloads, the pod's other disks serve the keys, and no pod restarts.
The files stay: after readmit, the disk serves them again.`),
		verb(v1alpha1.Readmit, "Bring disks of a pod back that were drained, missing or failed",
			`Bring disks of a pod back.

  drained   The disk is used again after a reload.
  missing   A disk that could not be mounted when the pod started has a placeholder.
            The operator replaces the pod, which tries the disk again.
  failed    The pod is evicted once, and the new pod tries the disk again.
            If the disk needs repair, cordon the node first: the new pod is pending then.
            Repair and mount the disk, and uncordon the node. The status of the CacheNode has the commands.

The operator keeps to the disruption budget.`),
		verb(v1alpha1.Replace, "Give disks of a pod new volumes, for disks that were exchanged",
			`Give disks of a pod new volumes.
The operator evicts the pod, as the disruption budget allows, and deletes the claims and volumes of these disks.
The new pod gets new ones on the same node, where its other disks are.
Mount the new disk before, or as soon as the pod is gone.`),
	)
	return command
}

func verb(v v1alpha1.Verb, short, long string) *cobra.Command {
	command := &cobra.Command{
		Use:   string(v) + " POD DISK...",
		Short: short,
		Long: long + `

The command sets the annotation ` + string(v) + `.cachenode.io/POD.DISK of the CacheNode` + meaning(v),
		Example: "  kubectl cachenode disk " + string(v) + " edge-1 disk2",
		Args:    cobra.MinimumNArgs(2),
	}
	flags := connect.Add(command)
	command.ValidArgsFunction = flags.CompleteDisks
	command.RunE = func(command *cobra.Command, args []string) error {
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		return run(command.Context(), cluster, v, args[0], args[1:], time.Now(), command.OutOrStdout())
	}
	return command
}

func meaning(v v1alpha1.Verb) string {
	if v == v1alpha1.Drain {
		return ".\nThe disk stays out of use as long as the annotation is there."
	}
	return "\nto the current time, such as 2026-11-21T12:00:00Z. " +
		"It does nothing to pods, claims and failures that are newer."
}

func run(
	ctx context.Context, cluster *connect.Cluster, v v1alpha1.Verb, pod string, disks []string, now time.Time,
	out io.Writer,
) error {
	cacheNode, err := find(ctx, cluster, pod)
	if err != nil {
		return err
	}
	before := cacheNode.DeepCopy()
	if cacheNode.Annotations == nil {
		cacheNode.Annotations = map[string]string{}
	}
	// The time in the annotation is in whole seconds. It must be later than a failure, or the creation of a pod, in the
	// present second. It is therefore rounded up, and the operator waits until this time.
	asked := now.Add(time.Second - 1).Truncate(time.Second)
	for _, disk := range disks {
		if !slices.ContainsFunc(cacheNode.Spec.Disks, func(d v1alpha1.Disk) bool { return d.Name == disk }) {
			return fmt.Errorf("CacheNode %s has no disk %q", cacheNode.Name, disk)
		}
		if v == v1alpha1.Readmit {
			delete(cacheNode.Annotations, v1alpha1.Drain.Annotation(pod, disk))
		}
		cacheNode.Annotations[v.Annotation(pod, disk)] = asked.UTC().Format(time.RFC3339)
	}
	if err := cluster.Patch(ctx, cacheNode, client.MergeFrom(before), client.FieldOwner(fieldManager)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "cachenode/%s: %s %s of %s\n", cacheNode.Name, v, strings.Join(disks, ", "), pod)
	return err
}

// find returns the CacheNode to which a pod belongs. The pod need not exist.
func find(ctx context.Context, cluster *connect.Cluster, pod string) (*v1alpha1.CacheNode, error) {
	i := strings.LastIndex(pod, "-")
	if i < 0 {
		return nil, fmt.Errorf("%s is no pod of a CacheNode: want a name such as edge-1", pod)
	}
	cacheNode := &v1alpha1.CacheNode{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: pod[:i]}, cacheNode); err != nil {
		return nil, err
	}
	ordinal, ok := naming.Ordinal(cacheNode.Name, pod)
	if replicas := int(ptr.Deref(cacheNode.Spec.Replicas, 1)); !ok || ordinal >= replicas {
		return nil, fmt.Errorf("CacheNode %s has %d pods, and %s is none of them", cacheNode.Name, replicas, pod)
	}
	return cacheNode, nil
}
