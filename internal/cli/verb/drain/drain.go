// Package drain implements the plugin's verb that moves cache pods away from a node.
//
// It may import the packages of the plugin and all pure packages. New flags of the verb belong here.
package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// New returns the command.
func New() *cobra.Command {
	timeout := 30 * time.Minute
	command := &cobra.Command{
		Use:   "drain NODE",
		Short: "Cordon a node and evict its cache pods, as soon as they have handed their keys over",
		Long: `Cordon a node and evict the pods of all CacheNodes from it.

Pods that share keys hand them over first, for spec.routing.handover (10m by default).
Until then their PodDisruptionBudget refuses the eviction. The command says what it waits for, and until when.
When no cache pod is left, "kubectl drain" evicts the rest at once. "kubectl uncordon" ends the maintenance.

If the time is over or the command is interrupted, the exit code is 1. The node stays cordoned, and the hand-over
goes on.

It needs the rights to get and patch nodes, to list pods in all namespaces, to create pods/eviction, and to get
CacheNodes.`,
		Example: `  kubectl cachenode drain node-2
  kubectl drain node-2 --ignore-daemonsets --delete-emptydir-data`,
		Args: cobra.ExactArgs(1),
	}
	command.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait")
	flags := connect.Add(command)
	command.ValidArgsFunction = flags.CompleteNodes
	command.RunE = func(command *cobra.Command, args []string) error {
		cluster, err := flags.Connect()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(command.Context(), timeout)
		defer cancel()
		d := drainer{
			Client: cluster.Client, node: args[0], out: command.OutOrStdout(),
			now: time.Now, said: map[string]string{},
			wait: func(ctx context.Context) {
				select {
				case <-ctx.Done():
				case <-time.After(again):
				}
			},
		}
		return d.run(ctx)
	}
	return command
}

// again is the time between two attempts. kubectl drain uses the same time.
const again = 5 * time.Second

// drainer drains one node.
type drainer struct {
	client.Client
	node string
	out  io.Writer
	now  func() time.Time
	// wait waits until the next attempt, or until the context ends.
	wait func(context.Context)
	// said contains the last message about each pod, and about the node.
	said map[string]string
}

func (d drainer) run(ctx context.Context) error {
	if err := d.cordon(ctx); err != nil {
		return err
	}
	for {
		left, err := d.evict(ctx)
		switch {
		case ctx.Err() != nil:
			return d.unfinished(ctx)
		case isPassing(err):
			d.say("node "+d.node, "waits: "+err.Error())
		case err != nil:
			return err
		case left == 0:
			_, err := fmt.Fprintf(d.out, "node %s: no cache pod is left\n", d.node)
			return err
		}
		d.wait(ctx)
	}
}

// unfinished returns the error for a context that has ended before the drain was complete.
func (d drainer) unfinished(ctx context.Context) error {
	why := "interrupted"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = "the time is over"
	}
	return fmt.Errorf("%s; node %s stays cordoned, and hand-overs go on: run the command again, or kubectl uncordon %s",
		why, d.node, d.node)
}

// isPassing returns true for an error after which the next attempt may succeed. A drain takes minutes, and the API
// server may restart during this time.
func isPassing(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}

// cordon marks the node as unschedulable, so that it gets no new pods.
func (d drainer) cordon(ctx context.Context) error {
	node := &corev1.Node{}
	if err := d.Get(ctx, client.ObjectKey{Name: d.node}, node); err != nil {
		return err
	}
	if node.Spec.Unschedulable {
		return nil
	}
	before := node.DeepCopy()
	node.Spec.Unschedulable = true
	if err := d.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(d.out, "node %s: cordoned\n", d.node)
	return err
}

// evict tries to evict each cache pod of the node. It returns the number of cache pods that are left.
func (d drainer) evict(ctx context.Context) (left int, err error) {
	pods := &corev1.PodList{}
	ours := client.MatchingLabels{naming.LabelManagedBy: naming.FieldManager, naming.LabelName: naming.Application}
	err = d.List(ctx, pods, ours, client.MatchingFields{"spec.nodeName": d.node})
	if err != nil {
		return 0, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		left++
		text := "is ending"
		if pod.DeletionTimestamp.IsZero() {
			if text, err = d.try(ctx, pod); err != nil {
				return left, err
			}
		}
		d.say("pod "+client.ObjectKeyFromObject(pod).String(), text)
	}
	return left, nil
}

// try tries to evict a pod, and returns a text about the result.
func (d drainer) try(ctx context.Context, pod *corev1.Pod) (string, error) {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := d.SubResource("eviction").Create(ctx, pod, eviction)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return "evicted", nil
	case !apierrors.IsTooManyRequests(err):
		return "", fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	cause, isBudget := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	if !isBudget { // the API server is overloaded
		return "waits: " + err.Error(), nil
	}
	cacheNode := &v1alpha1.CacheNode{}
	name := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[naming.LabelInstance]}
	if notFound := d.Get(ctx, name, cacheNode); apierrors.IsNotFound(notFound) {
		return "waits: " + err.Error(), nil
	} else if notFound != nil {
		return "", notFound
	}
	return waits(cacheNode, cause.Message, d.now()), nil
}

// waits returns a text that says what an eviction waits for if the disruption budget of the CacheNode does not allow
// it. refusal is the message of the API server about the budget. The text changes once a minute.
func waits(cacheNode *v1alpha1.CacheNode, refusal string, now time.Time) string {
	c := meta.FindStatusCondition(cacheNode.Status.Conditions, v1alpha1.ConditionEvictionsWait)
	r := cacheNode.Status.Routing
	switch {
	case c != nil && c.Status == metav1.ConditionTrue && r != nil && r.HandoverUntil != nil:
		left := r.HandoverUntil.Sub(now)
		if left <= 0 {
			return "waits until the budget allows it: the keys have been handed over"
		}
		return fmt.Sprintf("waits until %s, while keys are handed over: %d min left",
			r.HandoverUntil.UTC().Format(time.RFC3339), (left+time.Minute-1)/time.Minute)
	case c != nil && c.Reason == v1alpha1.ReasonCordonFirst:
		return "waits until the operator has seen the cordon, and the hand-over begins"
	}
	return fmt.Sprintf("waits until more pods are ready or spec.disruption.maxUnavailable is raised: %s; "+
		"to see which: kubectl cachenode status %s -n %s", refusal, cacheNode.Name, cacheNode.Namespace)
}

// say prints a message about a pod or about the node, unless the last message about it was the same.
func (d drainer) say(subject, text string) {
	if d.said[subject] == text {
		return
	}
	d.said[subject] = text
	const most = 1024
	_, _ = fmt.Fprintln(d.out, agentapi.Printable(subject+": "+text, most))
}
