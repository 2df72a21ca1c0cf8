// Package plan implements the plugin's verb that shows what an edit of a CacheNode would do, before the edit is
// applied.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package plan

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
	"github.com/cachenode/cachenode-operator/internal/cli/served"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/routes"
)

// options are the command's flags.
type options struct {
	files, from []string
	exitCode    bool
	output      *output.Flag
}

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "plan -f NEW [--from OLD]",
		Short: "Show which keys an edit moves or changes, and which pods it replaces",
		Long: `Show what an edit of a CacheNode does: which share of the keys moves from which disk to which,
how many bytes that is, whether the cache no longer finds objects, which pods are replaced or reload nginx,
and which claims come and go. Nothing is changed.

The file is compared with the CacheNode in the cluster, and with what its pods run.
The API server is asked whether it accepts the edit.
How full the caches are comes from the pods' metrics, which needs the right to get pods/proxy.
That is an estimate of up to a minute ago; "du" counts what the indexes have now.
With --from, the files are compared with other files, without a cluster.

If the files contain routes of Gateways too, it is shown which routes change, and of which routes the objects stay
in the caches.

Programs get a field "outcome" with -o json. With --exit-code, it is the exit code too:

  Nothing   0   Nothing changes.
  Changes   2   A field changes, also one that touches no pod. Cached objects are found again.
  Loss      3   Keys move or change, or the claims of a disk are deleted.

Errors exit with 1.`,
		Example: `  kubectl cachenode plan -f edge.yaml
  git show HEAD:edge.yaml >old.yaml; kubectl cachenode plan -f edge.yaml --from old.yaml
  kubectl cachenode plan -f edge.yaml -f routes/
  kubectl cachenode plan -f edge.yaml -o json | jq -r '.outcome, .cached[]?.note'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.Flags().StringSliceVarP(&o.files, "filename", "f", nil,
		"a file with the new version of the CacheNode and of its Gateways and routes, or a folder of such files; "+
			"- reads standard input; may be given more than once")
	command.Flags().StringSliceVar(&o.from, "from", nil,
		"a file or folder with the objects as they are now, instead of the cluster; may be given more than once")
	command.Flags().BoolVar(&o.exitCode, "exit-code", false, "exit with 2 for changes, and with 3 for a loss")
	_ = command.MarkFlagRequired("filename") // fails only for a flag that does not exist
	o.output = output.Add(command, "")
	flags := connect.Add(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := o.output.Check(); err != nil {
			return err
		}
		return o.run(command, flags)
	}
	return command
}

func (o *options) run(command *cobra.Command, flags *connect.Flags) error {
	namespace, cluster := metav1.NamespaceDefault, (*connect.Cluster)(nil)
	if len(o.from) == 0 {
		var err error
		if cluster, err = flags.Connect(); err != nil {
			return err
		}
		namespace = cluster.Namespace
	}
	next, err := file.ReadOne(o.files, namespace, command.InOrStdin())
	if err != nil {
		return err
	}
	cacheNode := next.CacheNodes[0]
	if cacheNode.Annotations[file.NoReplicas] != "" {
		cacheNode.Spec.Replicas = nil
	}
	var r result
	if cluster == nil {
		r, err = o.offline(next, command.ErrOrStderr())
	} else {
		r, err = withRoutes(command.Context(), cluster, next, command.ErrOrStderr())
	}
	if err != nil {
		return err
	}
	if o.output.IsForPrograms() {
		err = o.output.Write(command.OutOrStdout(), r)
	} else {
		writeText(command.OutOrStdout(), r, cacheNode.Spec.Rollout.MaxKeyMovement)
	}
	if code := r.Outcome.code(); err == nil && o.exitCode && code != 0 {
		return output.Exit(code)
	}
	return err
}

// offline compares the objects of files with the objects in the files of the flag --from.
func (o *options) offline(objects file.Objects, warnings io.Writer) (result, error) {
	before, err := file.ReadOne(o.from, metav1.NamespaceDefault, nil)
	if err != nil {
		return result{}, err
	}
	now, next := before.CacheNodes[0], objects.CacheNodes[0]
	if next.Spec.Replicas == nil {
		next.Spec.Replicas = now.Spec.Replicas
		_, _ = fmt.Fprintln(warnings,
			"warning: the file has no spec.replicas, so how many pods there are is not known here")
	}
	r, err := compare(now, running{}, next, nil)
	if err == nil {
		const domain = "cluster.local"
		r.addRoutes(changesOf(before.Table(now, domain, io.Discard), objects.Table(next, domain, warnings), true))
	}
	return r, err
}

// withRoutes compares the objects of files with those in the cluster. Routes that the files do not contain stay.
func withRoutes(
	ctx context.Context, cluster *connect.Cluster, objects file.Objects, warnings io.Writer,
) (result, error) {
	next := objects.CacheNodes[0]
	var after routes.Table
	if len(objects.HTTPRoutes) > 0 {
		after = objects.Table(next, "cluster.local", warnings)
	}
	r, err := inCluster(ctx, cluster, next, warnings)
	if err != nil || len(after.Routes) == 0 {
		return r, err
	}
	before, err := served.Routes(ctx, cluster, next.Name)
	if apierrors.IsNotFound(err) { // a CacheNode without pods
		err = nil
	}
	r.addRoutes(changesOf(before, after, false))
	return r, err
}

// Run compares the CacheNode of a file with the one in the cluster, and writes the effects of the edit to out.
func Run(ctx context.Context, cluster *connect.Cluster, next *v1alpha1.CacheNode, out, warnings io.Writer) error {
	r, err := inCluster(ctx, cluster, next, warnings)
	if err == nil {
		writeText(out, r, next.Spec.Rollout.MaxKeyMovement)
	}
	return err
}

// inCluster compares the CacheNode of a file with the one in the cluster.
func inCluster(
	ctx context.Context, cluster *connect.Cluster, next *v1alpha1.CacheNode, warnings io.Writer,
) (result, error) {
	if next.Namespace != "" {
		cluster.Namespace = next.Namespace
	}
	now := &v1alpha1.CacheNode{}
	err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: next.Name}, now)
	if apierrors.IsNotFound(err) {
		return result{}, fmt.Errorf("namespace %s has no CacheNode %s, so there is nothing to compare with: "+
			"kubectl cachenode render shows what a new one becomes", cluster.Namespace, next.Name)
	}
	if err != nil {
		return result{}, err
	}
	next.Namespace = now.Namespace
	if next.Spec.Placement.PerNode || next.Spec.Replicas == nil {
		next.Spec.Replicas = now.Spec.Replicas // the operator or an autoscaler sets it
	}
	tried := now.DeepCopy()
	tried.Spec = next.Spec
	// This is a patch and not an update, because the operator may write the status in the meantime.
	if err := cluster.Patch(ctx, tried, client.MergeFrom(now), client.DryRunAll); err != nil {
		return result{}, err
	}
	before, err := readRunning(ctx, cluster, now)
	if err != nil {
		return result{}, err
	}
	used, err := usedBytes(ctx, cluster, now)
	if err != nil {
		_, _ = fmt.Fprintln(warnings, "warning: how full the disks are is not known:", err)
	}
	return compare(now, before, next, used)
}

// running describes what the pods of a CacheNode run, which may be older than its spec. The zero value is for a
// CacheNode without pods.
type running struct {
	// tier contains what the operator has chosen for these pods. input is the hash of the input of their pod template
	// ([manifest.PodInput]).
	tier  effective.Before
	input string
	// replicas is the wanted number of pods. claims contains the sizes of their claims by disk. Both are nil if they are
	// not known.
	replicas *int32
	claims   map[string]resource.Quantity
	// revision is the revision that the pods run; nil if it is not known.
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
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // without a revision, the spec is compared
			return r, nil
		}
		return r, err
	}
	if stable, err := agentapi.ReadRevision([]byte(manifest.RevisionIn(configMap, naming.StableKey))); err == nil {
		r.revision = &stable
	}
	return r, nil
}

// usedBytes returns, by disk, how many bytes the caches of this disk take in all pods together; nil if that is
// unknown.
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

// spec returns the spec of the CacheNode in the parameter now. If the revision of the pods is known, spec takes the
// fields that affect cached objects from that revision.
func (r running) spec(now effective.CacheNode) v1alpha1.CacheNodeSpec {
	spec := *now.Spec.DeepCopy()
	if r.revision != nil {
		spec.Cache, spec.Origin, spec.Headers = r.revision.Spec.Cache, r.revision.Spec.Origin, r.revision.Spec.Headers
		spec.Routing.Mode = r.revision.Spec.Routing.Mode
	}
	return spec
}

// orOf returns r completed from the spec of a CacheNode: it sets the number of pods and the sizes of the claims if r
// does not contain them.
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

// edit compares the revision that runs with the new CacheNode (next), by the same function that the operator uses. If
// the revision is not known, it compares the old CacheNode (now) with the new one. older is the ID of the revision that
// runs if the old CacheNode is not rolled out yet; otherwise it is "".
func (r running) edit(now, next effective.CacheNode) (e edit.Edit, older string, err error) {
	if r.revision == nil {
		e, err = between(now, next)
		return e, "", err
	}
	outside := revision.Outside{
		CABundle: r.revision.CABundle, ClusterDomain: r.revision.ClusterDomain, Resolvers: r.revision.Resolvers,
		Routes: r.revision.Routes, // addRoutes adds the edits of routes
	}
	was, err := edit.TargetOf(now, outside)
	if err != nil {
		return e, "", err
	}
	if was.Revision.ID != r.revision.ID {
		older = r.revision.ID
	}
	after, err := edit.TargetOf(next, outside)
	if err != nil {
		return e, "", err
	}
	e, err = edit.Since(r.input, *r.revision, after)
	return e, older, err
}

// between compares an old CacheNode (now) with a new one (next).
func between(now, next effective.CacheNode) (edit.Edit, error) {
	before, err := edit.TargetOf(now, revision.Outside{})
	if err != nil {
		return edit.Edit{}, err
	}
	after, err := edit.TargetOf(next, revision.Outside{})
	if err != nil {
		return edit.Edit{}, err
	}
	return edit.Between(before, after)
}
