// Package purge implements the plugin's verb that purges objects.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package purge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/cli/output"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/internal/sites"
)

// The values of --wait.
const (
	untilNothing = "none"
	untilApplied = "applied"
	untilSettled = "settled"
)

// options are the flags of the verb.
type options struct {
	spec    v1alpha1.CachePurgeSpec
	soft    bool
	wait    string
	timeout time.Duration
	ttl     time.Duration
	isDry   bool
	output  *output.Flag
}

// outcome is the verb's output for programs.
type outcome struct {
	// Name is the name of the CachePurge.
	Name string `json:"name"`
	// Phase is the phase of the CachePurge; "" if the verb did not wait.
	Phase v1alpha1.PurgePhase `json:"phase,omitempty"`
	// Pods, Files and Bytes are the numbers of pods, files and bytes that were purged so far. Seconds is the time that
	// the purge took.
	Pods    int     `json:"pods"`
	Files   int64   `json:"files"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "purge CACHENODE [URL...]",
		Short: "Remove objects from the cache of all pods",
		Long: `Remove objects from the cache of a CacheNode, on all disks and in memory, in all pods.
A URL stands for the object by http and by https, with all of its variants and slices.
Flags can be repeated and combined; an object is purged if any of them names it.

The command creates a CachePurge and waits for it.

  applied   No pod serves the objects any more. What arrives late is removed as it is stored:
            requests for what was purged are MISSes until the purge settles.
  settled   Nothing is left of responses from before the purge. That is spec.purge.grace later.

If the CacheNode has spec.gateways, URLs, --prefix and --host name only objects of its own site.
--tag and --all name objects of HTTPRoutes too.

If the purge fails or the time is over, the exit code is 1.
A pod that is down obeys the purge before it serves again.

With --dry-run, it only says what the pods have now that the purge would be about, as far as their indexes know.
That needs the rights to get and create pods/exec.`,
		Example: `  kubectl cachenode purge edge https://www.example.com/index.html
  kubectl cachenode purge edge --tag article-17 --tag front-page
  kubectl cachenode purge edge --prefix https://www.example.com/img/ --soft
  kubectl cachenode purge edge --all --wait settled
  kubectl cachenode purge edge --host www.example.com --dry-run`,
		Args: cobra.MinimumNArgs(1),
	}
	flags := connect.Add(command)
	f := command.Flags()
	f.StringArrayVar(&o.spec.Prefixes, "prefix", nil, "purge URLs that begin with this, such as https://example.com/img/")
	f.StringArrayVar(&o.spec.Hosts, "host", nil, "purge all objects of a host, such as www.example.com")
	f.StringArrayVar(&o.spec.Tags, "tag", nil, "purge objects with this tag (Surrogate-Key or Cache-Tag)")
	f.BoolVar(&o.spec.Everything, "all", false, "purge everything")
	f.BoolVar(&o.soft, "soft", false, "make objects stale instead of removing them")
	f.StringVar(&o.wait, "wait", untilApplied, "what to wait for: applied, settled or none")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait; the purge goes on after that")
	f.DurationVar(&o.ttl, "ttl", time.Hour, "how long the CachePurge stays after the purge has settled")
	o.output = output.Add(command, "")
	_ = command.RegisterFlagCompletionFunc("wait", cobra.FixedCompletions( // the flag exists
		[]string{untilApplied, untilSettled, untilNothing}, cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&o.isDry, "dry-run", false, "say how many objects and bytes the purge would be about, and purge nothing")
	command.ValidArgsFunction = flags.CompleteNames
	command.RunE = func(command *cobra.Command, args []string) error {
		o.spec.CacheNode, o.spec.URLs = args[0], args[1:]
		if err := o.check(); err != nil {
			return err
		}
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		if o.isDry {
			return o.dryRun(command.Context(), cluster, command.OutOrStdout())
		}
		return o.run(command.Context(), cluster.Client, cluster.Namespace, command.OutOrStdout(), command.ErrOrStderr())
	}
	return command
}

// check returns an error for mistakes in the flags and arguments, before anything is sent.
func (o *options) check() error {
	if o.wait != untilNothing && o.wait != untilApplied && o.wait != untilSettled {
		return fmt.Errorf("--wait is %q, want applied, settled or none", o.wait)
	}
	if err := o.output.Check(); err != nil {
		return err
	}
	if o.ttl < time.Second || o.ttl > 30*24*time.Hour { // a finished purge must stay visible for a moment
		return fmt.Errorf("--ttl is %s, want 1s to 720h", o.ttl)
	}
	t := purge.TargetOf(o.spec)
	if o.spec.Everything && t.Items() > 0 {
		return errors.New("--all goes alone: remove the URLs, --prefix, --host and --tag")
	}
	if t.IsEmpty() {
		return errors.New("nothing to purge: give URLs, --prefix, --host, --tag or --all")
	}
	if err := t.CheckForm(); err != nil {
		return err
	}
	o.spec.Mode = v1alpha1.PurgeHard
	if o.soft {
		o.spec.Mode = v1alpha1.PurgeSoft
	}
	seconds := int32(o.ttl / time.Second)
	o.spec.TTLSecondsAfterFinished = &seconds
	return nil
}

// run creates the CachePurge and waits for it.
func (o *options) run(ctx context.Context, c client.Client, namespace string, out, progress io.Writer) error {
	// A CachePurge whose CacheNode does not exist would wait until somebody creates the CacheNode.
	cacheNode := &v1alpha1.CacheNode{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: o.spec.CacheNode}, cacheNode); err != nil {
		return err
	}
	note, err := aboutRoutes(cacheNode, o.spec)
	if err != nil {
		return err
	}
	if note != "" {
		_, _ = fmt.Fprintln(progress, "warning:", note)
	}
	cp := &v1alpha1.CachePurge{
		ObjectMeta: metav1.ObjectMeta{GenerateName: o.spec.CacheNode + "-", Namespace: namespace}, Spec: o.spec,
	}
	begun := time.Now()
	if err := c.Create(ctx, cp); err != nil {
		return err
	}
	if o.wait == untilNothing {
		return o.tell(out, cp, 0, "")
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := o.await(ctx, c, cp, progress); err != nil {
		return err
	}
	return o.tell(out, cp, time.Since(begun), cmp.Or(string(cacheNode.Spec.Purge.Grace), "10s"))
}

// aboutRoutes returns a note for a purge of a CacheNode whose Gateways serve other objects, which the purge does not
// name. It returns an error if the CacheNode can have no objects that the purge names.
func aboutRoutes(cacheNode *v1alpha1.CacheNode, spec v1alpha1.CachePurgeSpec) (note string, err error) {
	if cacheNode.Spec.Gateways == nil || len(spec.URLs)+len(spec.Prefixes)+len(spec.Hosts) == 0 {
		return "", nil
	}
	note = fmt.Sprintf("URLs, prefixes and hosts name objects of the own site of CacheNode %s: "+
		"use --tag or --all for objects of HTTPRoutes", cacheNode.Name)
	if sites.Own(cacheNode.Spec).IsEmpty() && len(spec.Tags) == 0 {
		return "", fmt.Errorf("%s; this CacheNode has no spec.origin, and so no site of its own", note)
	}
	return note, nil
}

// tell prints the result of the purge. grace is spec.purge.grace.
func (o *options) tell(out io.Writer, cp *v1alpha1.CachePurge, took time.Duration, grace string) (err error) {
	s := cp.Status
	switch {
	case o.output.IsForPrograms():
		told := outcome{Name: cp.Name, Pods: len(s.Pods), Files: s.Files, Bytes: s.Bytes, Seconds: took.Seconds()}
		if o.wait != untilNothing {
			told.Phase = s.Phase
		}
		return o.output.Write(out, told)
	case o.wait == untilNothing:
		_, err = fmt.Fprintf(out, "cachepurge/%s created\n", cp.Name)
		return err
	}
	_, err = fmt.Fprintf(out, "cachepurge/%s %s in %d pods after %s: %d files, %d bytes\n", cp.Name, o.wait,
		len(s.Pods), took.Round(time.Millisecond), s.Files, s.Bytes)
	if s.Phase == v1alpha1.PurgeApplied && err == nil {
		_, err = fmt.Fprintf(out,
			"Until it settles, %s after that, requests for what was purged go to the origin each time.\n", grace)
	}
	return err
}

// pollInterval is the time between the first reads of the CachePurge; later reads are less frequent. During the time
// patience, await prints nothing. The same constant is the longest time between two reads.
const (
	pollInterval = 25 * time.Millisecond
	patience     = time.Second
)

// await waits until the purge has the phase that --wait names. Whenever the reason for the wait changes, it prints the
// new reason.
func (o *options) await(ctx context.Context, c client.Client, cp *v1alpha1.CachePurge, progress io.Writer) error {
	begun, said := time.Now(), ""
	for {
		switch phase := cp.Status.Phase; {
		case phase == v1alpha1.PurgeFailed:
			return fmt.Errorf("cachepurge/%s failed: %s", cp.Name, cp.Status.Message)
		case phase == v1alpha1.PurgeSettled, phase == v1alpha1.PurgeApplied && o.wait == untilApplied:
			return nil
		}
		say := cp.Status.Message
		if cp.Status.Phase == v1alpha1.PurgeApplied {
			say = "applied, settles after the grace period"
		}
		if say != "" && say != said && time.Since(begun) > patience {
			_, _ = fmt.Fprintf(progress, "cachepurge/%s: %s\n", cp.Name, say)
			said = say
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cachepurge/%s is not %s yet, and goes on: kubectl get cachepurge %s -n %s -o yaml (%s)",
				cp.Name, o.wait, cp.Name, cp.Namespace, say)
		case <-time.After(min(max(pollInterval, time.Since(begun)/10), patience)):
		}
		fresh := &v1alpha1.CachePurge{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(cp), fresh); err != nil && ctx.Err() == nil {
			return err
		} else if err == nil {
			*cp = *fresh
		}
	}
}
