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
	var method string
	var files []string
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

If routes of Gateways may answer the URL, each route and backend has an object of its own, and all are shown.
Rules with conditions on headers are not compared, because the headers of a request are not known here.

With -f, the CacheNode comes from files, and the command needs no cluster.`, objects.MaxSlices),
		Example: `  kubectl cachenode explain edge https://cdn.example.com/video/1.mp4
  kubectl cachenode explain edge https://cdn.example.com/video/1.mp4 -f edge.yaml
  kubectl cachenode explain edge http://shop.example.com/items -f edge.yaml -f routes/`,
		Args: cobra.ExactArgs(2),
	}
	command.Flags().StringVar(&method, "method", "GET", "the request's method, where it is part of the key")
	command.Flags().StringSliceVarP(&files, "filename", "f", nil,
		"a file with the CacheNode and its Gateways and routes, or a folder of such files, instead of the cluster; "+
			"- reads standard input; may be given more than once")
	_ = command.RegisterFlagCompletionFunc("method", // fails only for a flag that does not exist
		cobra.FixedCompletions([]string{"GET", "HEAD", "POST"}, cobra.ShellCompDirectiveNoFileComp))
	form := output.Add(command, "")
	flags := connect.Add(command)
	command.ValidArgsFunction = flags.CompleteNames
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := form.Check(); err != nil {
			return err
		}
		var all []explained
		var err error
		if len(files) > 0 {
			all, err = inFiles(files, args[0], method, args[1], command.InOrStdin(), command.ErrOrStderr())
		} else {
			all, err = inCluster(command.Context(), flags, args[0], method, args[1], command.ErrOrStderr())
		}
		if err != nil {
			return err
		}
		if form.IsForPrograms() {
			return writeFor(form, command.OutOrStdout(), all)
		}
		for i, e := range all {
			if i > 0 {
				_, _ = fmt.Fprintln(command.OutOrStdout())
			}
			if err := write(command.OutOrStdout(), e.place, e.copies); err != nil {
				return err
			}
		}
		return nil
	}
	return command
}

// explained is a place with the copies that the pods have; nil if the CacheNode comes from a file.
type explained struct {
	place
	copies []held
}

// writeFor writes the output for programs. This is a list if routes may answer the URL, because there may be several
// objects.
func writeFor(form *output.Flag, out io.Writer, all []explained) error {
	list := make([]summary, len(all))
	for i, e := range all {
		list[i] = summarize(e.place, e.copies)
	}
	if len(list) == 1 && all[0].route == "" {
		return form.Write(out, list[0])
	}
	return form.Write(out, list)
}

// inFiles explains a URL or a key without a cluster.
func inFiles(files []string, name, method, argument string, in io.Reader, warnings io.Writer) ([]explained, error) {
	objects, err := file.ReadAll(files, metav1.NamespaceDefault, in)
	if err != nil {
		return nil, err
	}
	cacheNode, err := objects.Named(name)
	if err != nil {
		return nil, err
	}
	places, notes, err := placesOf(cacheNode, objects.Table(cacheNode, "cluster.local", warnings), method, argument)
	writeNotes(warnings, notes)
	all := make([]explained, len(places))
	for i, p := range places {
		p.ownedWhenNew(cacheNode)
		all[i] = explained{place: p}
	}
	return all, err
}

// inCluster explains a URL or a key of a CacheNode in the cluster.
func inCluster(
	ctx context.Context, flags *connect.Flags, cacheNodeName, method, argument string, warnings io.Writer,
) (all []explained, err error) {
	cluster, err := flags.Connect()
	if err != nil {
		return nil, err
	}
	cacheNode := &v1alpha1.CacheNode{}
	name := client.ObjectKey{Namespace: cluster.Namespace, Name: cacheNodeName}
	if err := cluster.Get(ctx, name, cacheNode); err != nil {
		return nil, err
	}
	table, err := tableOf(ctx, cluster, cacheNode)
	if err != nil {
		return nil, err
	}
	places, notes, err := placesOf(cacheNode, table, method, argument)
	writeNotes(warnings, notes)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		if err := p.findOwners(ctx, cluster, cacheNode); err != nil {
			return nil, err
		}
		copies, err := ask(ctx, cluster, cacheNode, p.key)
		if err != nil {
			return nil, err
		}
		all = append(all, explained{p, copies})
	}
	return all, nil
}

func writeNotes(out io.Writer, notes []string) {
	for _, note := range notes {
		output.Remark(out, "note", note)
	}
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
	// route is the route and the backend that make the object; "" for the CacheNode's own site.
	route string
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
	if p.route != "" {
		_, _ = fmt.Fprintf(out, "Route: %s\n", p.route)
	}
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
