// Package explain implements the plugin's verb that shows where an object is cached.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/cli/podobjects"
	"github.com/cachenode/cachenode-operator/internal/cli/table"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// New returns the command.
func New() *cobra.Command {
	var method, filename string
	command := &cobra.Command{
		Use:   "explain NAME KEY|URL",
		Short: "Show the disk and file of an object, and which pods hold it",
		Long: fmt.Sprintf(`Show the disk and file of an object, and which pods hold it.
With routing.mode Sharded, it also shows the pod that owns the key, and the one that answers if the owner does not.
A URL such as http://cdn.example.com/a?b=c is turned into the cache key that spec.cache.key makes of it.
Anything else is taken as the key itself, of the object or as a cache file has it.

The command asks the agent of each pod for the object's files, which needs the rights to get and create pods/exec.
With spec.cache.slice, they are those of the first %d slices, and of the whole object.
It requests no object, so it caches nothing.

With -f, the CacheNode comes from a file, and the command needs no cluster.`, objects.MaxSlices),
		Example: `  kubectl cachenode explain edge https://cdn.example.com/video/1.mp4
  kubectl cachenode explain edge https://cdn.example.com/video/1.mp4 -f edge.yaml`,
		Args: cobra.ExactArgs(2),
	}
	command.Flags().StringVar(&method, "method", "GET", "the request's method, where it is part of the key")
	command.Flags().StringVarP(&filename, "filename", "f", "",
		"a file with the CacheNode, instead of the cluster; - reads standard input")
	_ = command.RegisterFlagCompletionFunc("method", // fails only for a flag that does not exist
		cobra.FixedCompletions([]string{"GET", "HEAD", "POST"}, cobra.ShellCompDirectiveNoFileComp))
	form := output.Add(command, "")
	flags := connect.Add(command)
	command.ValidArgsFunction = flags.CompleteNames
	tell := func(out io.Writer, p place, copies []held) error {
		if form.IsForPrograms() {
			return form.Write(out, summarize(p, copies))
		}
		return write(out, p, copies)
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := form.Check(); err != nil {
			return err
		}
		if filename != "" {
			cacheNode, err := file.Named(filename, args[0], command.InOrStdin())
			if err != nil {
				return err
			}
			place := placeOf(cacheNode, method, args[1])
			place.ownedWhenNew(cacheNode)
			return tell(command.OutOrStdout(), place, nil)
		}
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		cacheNode := &v1alpha1.CacheNode{}
		name := client.ObjectKey{Namespace: cluster.Namespace, Name: args[0]}
		if err := cluster.Get(command.Context(), name, cacheNode); err != nil {
			return err
		}
		place := placeOf(cacheNode, method, args[1])
		if err := place.findOwners(command.Context(), cluster, cacheNode); err != nil {
			return err
		}
		copies, err := ask(command.Context(), cluster, cacheNode, place.key)
		if err != nil {
			return err
		}
		return tell(command.OutOrStdout(), place, copies)
	}
	return command
}

// keyOf returns the key of the object at a URL. It reads any other argument as a key: the key of an object, or the
// key in a cache file.
func keyOf(cacheNode *v1alpha1.CacheNode, method, argument string) string {
	u, ok := requestOf(argument)
	if !ok {
		return cachekey.Parse(argument).Object()
	}
	request := cachekey.ForURL(u, argument)
	request.Method = method
	return cachekey.Of(sites.Own(cacheNode.Spec).Cache, request).Object()
}

// place contains the place of a key: its disk, its file and the pods that own it.
type place struct {
	key, disk, share string
	// path is the path of the object, or of its first slice. file is a text for people: the path, with a remark if it is
	// the path of the first slice.
	path, file string
	// owners are the pods to which the key belongs, by zone if there are zones. The list is empty if the pods do not
	// share keys.
	owners []owners
	hash   uint32
	slot   int
	// refused is the host of the URL if a request for this host gets 421.
	refused string
}

// placeOf returns the place of a URL or a key, on the assumption that no disk has failed.
func placeOf(cacheNode *v1alpha1.CacheNode, method, argument string) place {
	p := locate(cacheNode, keyOf(cacheNode, method, argument))
	p.refused = refusedHost(sites.Own(cacheNode.Spec).Hosts, argument)
	return p
}

// locate returns the place of a key, on the assumption that no disk has failed. It is pure.
func locate(cacheNode *v1alpha1.CacheNode, key string) place {
	plan := shard.NewPlan(effective.ShardDisks(cacheNode.Spec.Disks))
	p := place{key: key, disk: plan.Tree().Owner([]byte(key))}
	p.hash, p.slot = shard.Hash([]byte(key))
	p.path = cachekey.OnDisk(p.disk, key)
	p.file = p.path
	if s := sites.Own(cacheNode.Spec).Cache.Slice; s != nil {
		first := cachekey.Parse(key)
		first.Slice = cachekey.NthSlice(s.Size.Value(), 0)
		p.path = cachekey.OnDisk(p.disk, first.String())
		p.file = p.path + ", its first slice"
	}
	for _, d := range cacheNode.Status.Disks {
		if d.Name == p.disk {
			p.share = d.Share
		}
	}
	if p.share == "" {
		p.share = shard.Percent(plan.Share(p.disk))
	}
	return p
}

// diskIn returns the disk of a key in a pod. The failed and drained disks of the pod have given their keys to the
// other disks. moved is true if the key is not on the disk to which the plan assigns it.
func diskIn(cacheNode *v1alpha1.CacheNode, pod v1alpha1.PodStatus, key string) (disk string, moved bool) {
	plan := shard.NewPlan(effective.ShardDisks(cacheNode.Spec.Disks))
	own := plan.Tree().Owner([]byte(key))
	var failed []string
	for _, d := range pod.Disks {
		if d.State != string(v1alpha1.DiskHealthy) {
			failed = append(failed, d.Name)
		}
	}
	if !slices.Contains(failed, own) {
		return own, false
	}
	if rest, ok := plan.Without(failed...); ok {
		return rest.Tree().Owner([]byte(key)), true
	}
	return agentapi.NoDisk, true
}

// current returns true if the status describes the current spec, and this spec is in force: it is neither refused nor
// waiting.
func current(cacheNode *v1alpha1.CacheNode) bool {
	waits := func(c metav1.Condition) bool { return c.Reason == v1alpha1.ReasonKeyMovement }
	return cacheNode.Status.ObservedGeneration == cacheNode.Generation && cacheNode.Status.Refusal == nil &&
		meta.IsStatusConditionTrue(cacheNode.Status.Conditions, v1alpha1.ConditionAccepted) &&
		!slices.ContainsFunc(cacheNode.Status.Conditions, waits)
}

// ask asks each pod for the object's files.
func ask(ctx context.Context, cluster *connect.Cluster, cacheNode *v1alpha1.CacheNode, key string) ([]held, error) {
	slice := int64(0)
	if s := sites.Own(cacheNode.Spec).Cache.Slice; s != nil {
		slice = s.Size.Value()
	}
	copies := make([]held, len(cacheNode.Status.Pods))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, pod := range cacheNode.Status.Pods {
		group.Go(func() error {
			older := !current(cacheNode) || pod.Revision != cacheNode.Status.ConfigRevision
			c := held{pod: pod.Name, older: older, slice: slice}
			c.disk, c.moved = diskIn(cacheNode, pod, key)
			if c.disk != agentapi.NoDisk {
				var err error
				c.Copy, err = podobjects.Copy(ctx, cluster, c.pod, objects.Lookup{Key: key, Disk: c.disk, Slice: slice})
				if err != nil {
					c.problem = err.Error()
				}
			}
			copies[i] = c
			return nil
		})
	}
	return copies, group.Wait()
}

func write(out io.Writer, p place, copies []held) error {
	_, err := fmt.Fprintf(out,
		"Key:   %s\nHash:  %#08x, slot %d of %d\nDisk:  %s, which has %s of the keys\nFile:  %s\n",
		p.key, p.hash, p.slot, shard.Slots, p.disk, p.share, p.file)
	if err != nil {
		return err
	}
	for _, o := range p.owners {
		_, _ = fmt.Fprintln(out, o)
	}
	if p.refused != "" {
		_, _ = fmt.Fprintf(out, "Host:  %s is not in spec.hosts: a request for it gets 421\n", p.refused)
	}
	if len(copies) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(out)
	rows := table.New(out, -1, "POD", "DISK", "CACHED", "BYTES", "VALID UNTIL", "NOTE")
	for _, c := range copies {
		rows.Row(c.columns(p.disk, time.Now())...)
	}
	rows.Write()
	return nil
}
