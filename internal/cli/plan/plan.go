// Package plan is the plugin's verb that says what an edit of a CacheNode would do, before it is applied.
package plan

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/movement"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// New makes the command.
func New() *cobra.Command {
	var filename, from string
	command := &cobra.Command{
		Use:   "plan -f NEW [--from OLD]",
		Short: "Say which keys an edit would move, and which pods it would make anew",
		Long: `Say what the edit of a CacheNode would do: which share of the keys moves from which disk to which, how many bytes that is as full as
the disks are now, which pods are made anew, and which claims come and go. Nothing is changed.

The CacheNode is compared with what the cluster has, and the API server is asked whether it would take it; how full the disks
are is asked of the pods' metrics, which takes the right to get pods/proxy. With --from, two files are compared and no cluster is
asked.`,
		Example: `  kubectl cachenode plan -f edge.yaml
  git show HEAD:edge.yaml >old.yaml; kubectl cachenode plan -f edge.yaml --from old.yaml`,
		Args: cobra.NoArgs,
	}
	command.Flags().StringVarP(&filename, "filename", "f", "", "the file with the CacheNode as it is to be; - reads standard input")
	command.Flags().StringVar(&from, "from", "", "a file with the CacheNode as it is now, instead of the cluster")
	_ = command.MarkFlagRequired("filename") // the flag exists
	flags := connect.Add(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		next, err := file.One(filename, command.InOrStdin())
		if err != nil {
			return err
		}
		if next.Annotations[file.NoReplicas] != "" {
			next.Spec.Replicas = nil
		}
		if from != "" {
			now, err := file.One(from, nil)
			if err != nil {
				return err
			}
			if next.Spec.Replicas == nil {
				next.Spec.Replicas = now.Spec.Replicas
				_, _ = fmt.Fprintln(command.ErrOrStderr(), "warning: the file has no spec.replicas, so how many pods there are is not known here")
			}
			return write(command.OutOrStdout(), now, next, nil)
		}
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		return run(command.Context(), cluster, next, command.OutOrStdout())
	}
	return command
}

func run(ctx context.Context, cluster *connect.Cluster, next *v1alpha1.CacheNode, out io.Writer) error {
	if next.Namespace != "" {
		cluster.Namespace = next.Namespace
	}
	now := &v1alpha1.CacheNode{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: next.Name}, now); err != nil {
		return err
	}
	next.Namespace = now.Namespace
	if next.Spec.Placement.PerNode || next.Spec.Replicas == nil {
		next.Spec.Replicas = now.Spec.Replicas // the operator or an autoscaler sets it
	}
	tried := now.DeepCopy()
	tried.Spec = next.Spec
	if err := cluster.Update(ctx, tried, client.DryRunAll); err != nil {
		return err
	}
	var pods []string
	for _, p := range now.Status.Pods {
		pods = append(pods, p.Name)
	}
	used := map[string]int64{}
	for _, disks := range podmetrics.Read(ctx, cluster, pods) {
		for name, d := range disks {
			used[name] += int64(d.UsedBytes)
		}
	}
	return write(out, now, next, used)
}

// write says what changes. used is what each disk holds over all pods; nil if that is not known.
func write(out io.Writer, now, next *v1alpha1.CacheNode, used map[string]int64) error {
	next = next.DeepCopy()
	next.Namespace, next.Annotations = now.Namespace, now.Annotations // what a file leaves out is no change
	m := movement.Between(now.Spec.Disks, next.Spec.Disks)
	if m.Slots == 0 {
		_, _ = fmt.Fprintln(out, "Keys: none moves")
	} else {
		_, _ = fmt.Fprintf(out, "Keys: %s of them move (any plan must move %s)%s\n", movement.Share(m.Slots), movement.Share(m.Least), amount(m.Bytes(used), used))
		rows := table.New(out, -1, "  FROM", "TO", "SHARE", "BYTES")
		for _, move := range m.Moves {
			size := "-"
			if used != nil {
				size = movement.Size(int64(m.MoveBytes(move, used)))
			}
			rows.Row("  "+move.From, move.To, movement.Share(move.Slots), size)
		}
		rows.Write()
	}
	if limit := next.Spec.Rollout.MaxKeyMovement; limit != nil && m.Slots > int(*limit)*100 {
		_, _ = fmt.Fprintf(out, "This is more than rollout.maxKeyMovement, %d%%: it waits for the annotation\n  %s: %q\n", *limit, naming.AnnotationAcknowledged, m.Name)
	}
	pods, err := describePods(now, next)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Pods: %s\n%s", pods, describeClaims(now, next))
	return err
}

func amount(bytes int64, used map[string]int64) string {
	if used == nil {
		return ""
	}
	var all int64
	for _, n := range used {
		all += n
	}
	return fmt.Sprintf(", %s of the %s that the disks hold now", movement.Size(bytes), movement.Size(all))
}

// describePods says what becomes of the pods.
func describePods(now, next *v1alpha1.CacheNode) (string, error) {
	before, err := manifest.NewPodInput(now).Hash()
	if err != nil {
		return "", err
	}
	after, err := manifest.NewPodInput(next).Hash()
	if err != nil {
		return "", err
	}
	had, has := int(ptr.Deref(now.Spec.Replicas, 1)), int(ptr.Deref(next.Spec.Replicas, 1))
	var parts []string
	if before != after {
		order := ", one after another, in this order"
		if min(had, has) < 2 {
			order = ""
		}
		parts = append(parts, fmt.Sprintf("%s made anew%s; the disks that stay are warm", names(next.Name, 0, min(had, has)), order))
	} else if before == after && min(had, has) > 0 {
		parts = append(parts, "none is made anew")
	}
	if has > had {
		parts = append(parts, names(next.Name, had, has)+" made")
	}
	if has < had {
		parts = append(parts, names(next.Name, has, had)+" removed")
	}
	return strings.Join(parts, "; "), nil
}

// names are those of the pods with ordinals from first to before the last, with the verb that fits.
func names(cacheNode string, first, last int) string {
	list := make([]string, 0, last-first)
	for i := first; i < last; i++ {
		list = append(list, naming.Pod(cacheNode, i))
	}
	switch n := len(list); {
	case n == 0:
		return "none is"
	case n == 1:
		return list[0] + " is"
	case n > 6:
		return fmt.Sprintf("%s, ... %s are", strings.Join(list[:3], ", "), list[n-1])
	default:
		return strings.Join(list, ", ") + " are"
	}
}

// describeClaims says which claims come, go and grow.
func describeClaims(now, next *v1alpha1.CacheNode) string {
	find := func(disks []v1alpha1.Disk, name string) *v1alpha1.Disk {
		i := slices.IndexFunc(disks, func(d v1alpha1.Disk) bool { return d.Name == name })
		if i < 0 {
			return nil
		}
		return &disks[i]
	}
	var lines strings.Builder
	for _, d := range next.Spec.Disks {
		switch old := find(now.Spec.Disks, d.Name); {
		case old == nil:
			_, _ = fmt.Fprintf(&lines, "Claims: one for %s is made for each pod, of %s\n", d.Name, d.Size.String())
		case old.Size.Cmp(d.Size) < 0:
			_, _ = fmt.Fprintf(&lines, "Claims: those for %s ask for %s, were %s, where their class allows that\n", d.Name, d.Size.String(), old.Size.String())
		}
	}
	for _, d := range now.Spec.Disks {
		if find(next.Spec.Disks, d.Name) == nil {
			_, _ = fmt.Fprintf(&lines, "Claims: those for %s are deleted, and what is cached there with them\n", d.Name)
		}
	}
	return lines.String()
}
