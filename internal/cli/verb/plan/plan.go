// Package plan is the plugin's verb that says what an edit of a CacheNode would do, before it is applied.
package plan

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/status"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// New makes the command.
func New() *cobra.Command {
	var filename, from string
	command := &cobra.Command{
		Use:   "plan -f NEW [--from OLD]",
		Short: "Show which keys an edit moves, and which pods it replaces",
		Long: `Show what an edit of a CacheNode does: ` +
			`which share of the keys moves from which disk to which, how many bytes that is,
which pods are replaced or reload nginx, and which claims come and go. Nothing is changed.

The file is compared with the CacheNode in the cluster, and with what its pods run. The API server is asked whether it
accepts the edit. ` +
			`How full the
caches are comes from the pods' metrics, which needs the right to get pods/proxy. ` +
			`With --from, two files are compared without
a cluster.`,
		Example: `  kubectl cachenode plan -f edge.yaml
  git show HEAD:edge.yaml >old.yaml; kubectl cachenode plan -f edge.yaml --from old.yaml`,
		Args: cobra.NoArgs,
	}
	command.Flags().StringVarP(&filename, "filename", "f", "",
		"the file with the new version of the CacheNode; - reads standard input")
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
				_, _ = fmt.Fprintln(command.ErrOrStderr(),
					"warning: the file has no spec.replicas, so how many pods there are is not known here")
			}
			return write(command.OutOrStdout(), now, running{}, next, nil)
		}
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		return Run(command.Context(), cluster, next, command.OutOrStdout(), command.ErrOrStderr())
	}
	return command
}

// Run compares the CacheNode of a file with the one in the cluster, and writes what the edit does to out.
func Run(ctx context.Context, cluster *connect.Cluster, next *v1alpha1.CacheNode, out, warnings io.Writer) error {
	if next.Namespace != "" {
		cluster.Namespace = next.Namespace
	}
	now := &v1alpha1.CacheNode{}
	err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: next.Name}, now)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s has no CacheNode %s, so there is nothing to compare with: "+
			"kubectl cachenode render shows what a new one becomes", cluster.Namespace, next.Name)
	}
	if err != nil {
		return err
	}
	next.Namespace = now.Namespace
	if next.Spec.Placement.PerNode || next.Spec.Replicas == nil {
		next.Spec.Replicas = now.Spec.Replicas // the operator or an autoscaler sets it
	}
	tried := now.DeepCopy()
	tried.Spec = next.Spec
	// A patch and not an update, as the operator may write the status meanwhile.
	if err := cluster.Patch(ctx, tried, client.MergeFrom(now), client.DryRunAll); err != nil {
		return err
	}
	before, err := readRunning(ctx, cluster, now)
	if err != nil {
		return err
	}
	used, err := usedBytes(ctx, cluster, now)
	if err != nil {
		_, _ = fmt.Fprintln(warnings, "warning: how full the disks are is not known:", err)
	}
	return write(out, now, before, next, used)
}

// running is what the pods of a CacheNode run, which may be older than its spec. The zero value is for a CacheNode
// without pods.
type running struct {
	// tier says whether they have a memory tier, input is the hash of what they were created from.
	tier  tuning.Before
	input string
	// replicas is how many pods there are to be. claims are the sizes of their claims by disk. Both are nil if they are
	// not known.
	replicas *int32
	claims   map[string]resource.Quantity
	// revision is nil if it is not known.
	revision *agentapi.Revision
}

func readRunning(ctx context.Context, cluster *connect.Cluster, now *v1alpha1.CacheNode) (running, error) {
	set, configMap := &appsv1.StatefulSet{}, &corev1.ConfigMap{}
	err := cluster.Get(ctx, client.ObjectKeyFromObject(now), set)
	if apierrors.IsNotFound(err) {
		return running{}, nil
	}
	if err != nil {
		return running{}, err
	}
	r := running{
		tier:  manifest.Before("", set),
		input: set.Spec.Template.Annotations[naming.AnnotationInput],

		replicas: set.Spec.Replicas, claims: map[string]resource.Quantity{},
	}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		r.claims[claim.Name] = *claim.Spec.Resources.Requests.Storage()
	}
	name := client.ObjectKey{Namespace: now.Namespace, Name: naming.ConfigMap(now.Name)}
	if err := cluster.Get(ctx, name, configMap); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // the spec is compared then
			return r, nil
		}
		return r, err
	}
	if stable, err := agentapi.ReadRevision([]byte(configMap.Data[naming.StableKey])); err == nil {
		r.revision = &stable
	}
	return r, nil
}

// usedBytes returns, by disk, how many bytes the disk's cache takes over all pods; nil if unknown.
func usedBytes(ctx context.Context, cluster *connect.Cluster, now *v1alpha1.CacheNode) (map[string]int64, error) {
	var pods []string
	for _, p := range now.Status.Pods {
		pods = append(pods, p.Name)
	}
	numbers, err := podmetrics.Read(ctx, cluster, pods)
	if len(numbers) == 0 {
		return nil, err
	}
	used := map[string]int64{}
	for _, pod := range numbers {
		for name, d := range pod.Disks {
			used[name] += int64(d.CacheBytes)
		}
	}
	return used, err
}

// write prints what an edit of asked changes, compared with what runs before. used is, by disk, how many bytes the
// disk's cache takes over all pods; nil if unknown.
func write(
	out io.Writer, asked *v1alpha1.CacheNode, before running, next *v1alpha1.CacheNode, used map[string]int64,
) error {
	now := effective.Of(asked, before.tier)
	next = next.DeepCopy()
	next.Namespace, next.Annotations = now.Namespace, now.Annotations // what a file leaves out is no change
	chosen := effective.Of(next, now.Before())
	e, err := before.edit(out, now, chosen)
	if err != nil {
		return err
	}
	writeKeys(out, e.Movement, used)
	if m, shared := edit.PodMovement(now.Spec, chosen.Spec); shared && m.Slots > 0 {
		_, _ = fmt.Fprintf(out, "Pods: %s of the keys get another owner (any plan must move %s), "+
			"which fills them from the previous one for %s\n",
			shard.Percent(m.Slots), shard.Percent(m.Least), tuning.Handover(chosen.Spec.Routing))
	}
	if limit, m := next.Spec.Rollout.MaxKeyMovement, e.Movement; limit != nil && m.Slots > int(*limit)*100 {
		_, _ = fmt.Fprintf(out, "This is more than rollout.maxKeyMovement, %d%%: it waits for the annotation\n  %s: %q\n",
			*limit, v1alpha1.AnnotationAcknowledged, m.Name)
	}
	if err := writeFields(out, now, asked, next); err != nil {
		return err
	}
	writeChoices(out, now, chosen)
	before = before.orOf(now.CacheNode)
	_, err = fmt.Fprintf(out, "Pods: %s\n%s",
		describePods(*before.replicas, chosen, e), describeClaims(before.claims, next))
	return err
}

// orOf returns what runs. What is not known is what a CacheNode asks for.
func (r running) orOf(cacheNode *v1alpha1.CacheNode) running {
	if r.replicas == nil {
		r.replicas = new(ptr.Deref(cacheNode.Spec.Replicas, 1))
	}
	if r.claims == nil {
		r.claims = map[string]resource.Quantity{}
		for _, d := range cacheNode.Spec.Disks {
			r.claims[d.Name] = d.Size
		}
	}
	return r
}

// edit compares what runs with next, by the function that the operator acts on. If now was not rolled out yet, it says
// so.
func (r running) edit(out io.Writer, now, next effective.CacheNode) (edit.Edit, error) {
	if r.revision == nil {
		return between(now, next)
	}
	outside := edit.Outside{
		CABundle: r.revision.CABundle, ClusterDomain: r.revision.ClusterDomain, Resolvers: r.revision.Resolvers,
	}
	was, err := edit.TargetOf(now, outside)
	if err != nil {
		return edit.Edit{}, err
	}
	if was.Revision.ID != r.revision.ID {
		_, _ = fmt.Fprintf(out, "The pods do not run the present spec yet: keys and pods are compared with revision %s\n",
			r.revision.ID)
	}
	after, err := edit.TargetOf(next, outside)
	if err != nil {
		return edit.Edit{}, err
	}
	return edit.Since(r.input, *r.revision, after)
}

// between compares two specs.
func between(now, next effective.CacheNode) (edit.Edit, error) {
	before, err := edit.TargetOf(now, edit.Outside{})
	if err != nil {
		return edit.Edit{}, err
	}
	after, err := edit.TargetOf(next, edit.Outside{})
	if err != nil {
		return edit.Edit{}, err
	}
	return edit.Between(before, after)
}

func writeKeys(out io.Writer, m shard.Movement, used map[string]int64) {
	if m.Slots == 0 {
		_, _ = fmt.Fprintln(out, "Keys: none moves")
		return
	}
	_, _ = fmt.Fprintf(out, "Keys: %s of them move (any plan must move %s)%s\n",
		shard.Percent(m.Slots), shard.Percent(m.Least), amount(m.Bytes(used), used))
	rows := table.New(out, -1, "  FROM", "TO", "SHARE", "BYTES")
	for _, move := range m.Moves {
		size := "-"
		if used != nil {
			size = status.Size(int64(m.MoveBytes(move, used)))
		}
		rows.Row("  "+move.From, move.To, shard.Percent(move.Slots), size)
	}
	rows.Write()
}

func amount(bytes int64, used map[string]int64) string {
	if used == nil {
		return ""
	}
	var all int64
	for _, n := range used {
		all += n
	}
	return fmt.Sprintf(", %s of the %s that the disks hold now", status.Size(bytes), status.Size(all))
}

// describePods says what becomes of the pods.
func describePods(replicas int32, next effective.CacheNode, e edit.Edit) string {
	had, has := int(replicas), int(ptr.Deref(next.Spec.Replicas, 1))
	var parts []string
	switch stay := min(had, has); {
	case e.NewPods:
		order := ", one after another, in this order"
		if stay < 2 {
			order = ""
		}
		parts = append(parts, fmt.Sprintf("%s replaced%s; the disks that stay are warm", names(next.Name, 0, stay), order))
	case e.NewRevision && stay > 0:
		parts = append(parts, "none is replaced; nginx reloads in each, without a restart")
	case stay > 0:
		parts = append(parts, "none is replaced, and nginx goes on as it is")
	}
	if has > had {
		parts = append(parts, names(next.Name, had, has)+" created")
	}
	if has < had {
		parts = append(parts, names(next.Name, has, had)+" removed")
	}
	return strings.Join(parts, "; ")
}

// names lists the pods with the ordinals from first up to last, without last, and adds the verb that fits.
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

// describeClaims says which claims are created, deleted or enlarged. before has the sizes of the existing claims, by
// disk.
func describeClaims(before map[string]resource.Quantity, next *v1alpha1.CacheNode) string {
	var lines strings.Builder
	kept := map[string]bool{}
	for _, d := range next.Spec.Disks {
		kept[d.Name] = true
		switch size, known := before[d.Name]; {
		case !known:
			_, _ = fmt.Fprintf(&lines, "Claims: one of %s for %s is created for each pod\n", d.Size.String(), d.Name)
		case size.Cmp(d.Size) < 0:
			_, _ = fmt.Fprintf(&lines, "Claims: those for %s grow from %s to %s if their class allows expansion\n",
				d.Name, size.String(), d.Size.String())
		}
	}
	for _, disk := range slices.Sorted(maps.Keys(before)) {
		if !kept[disk] {
			_, _ = fmt.Fprintf(&lines, "Claims: those for %s are deleted, and what is cached there with them\n", disk)
		}
	}
	return lines.String()
}
