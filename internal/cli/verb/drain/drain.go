// Package drain is the plugin's verb that moves cache pods away from a node.
package drain

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// New makes the command.
func New() *cobra.Command {
	timeout := 30 * time.Minute
	command := &cobra.Command{
		Use:   "drain NODE",
		Short: "Cordon a node and evict its cache pods, as soon as they have handed their keys over",
		Long: `Cordon a node and evict the pods of all CacheNodes from it.

Pods that share keys hand them over first, for spec.routing.handover (10m by default).
Until then their PodDisruptionBudget refuses the eviction. The command says what it waits for, and until when.
When no cache pod is left, "kubectl drain" evicts the rest at once. "kubectl uncordon" ends the maintenance.

If the time is over, the exit code is 1. The node stays cordoned, and the hand-over goes on.

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
			now: time.Now, said: map[client.ObjectKey]string{},
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

// again is the time between two tries, as for kubectl drain.
const again = 5 * time.Second

// drainer drains one node.
type drainer struct {
	client.Client
	node string
	out  io.Writer
	now  func() time.Time
	// wait waits for the next try, or until the context ends.
	wait func(context.Context)
	// said is what was said last of each pod.
	said map[client.ObjectKey]string
}

func (d drainer) run(ctx context.Context) error {
	if err := d.cordon(ctx); err != nil {
		return err
	}
	for {
		left, err := d.evict(ctx)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("the time is over; node %s stays cordoned: run the command again, or kubectl uncordon %s",
				d.node, d.node)
		case err != nil:
			return err
		case left == 0:
			_, err := fmt.Fprintf(d.out, "node %s: no cache pod is left\n", d.node)
			return err
		}
		d.wait(ctx)
	}
}

// cordon keeps new pods from the node.
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

// evict tries to evict each cache pod of the node, and returns how many are left.
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
		d.say(pod, text)
	}
	return left, nil
}

// try tries to evict a pod, and returns what has become of that.
func (d drainer) try(ctx context.Context, pod *corev1.Pod) (string, error) {
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := d.SubResource("eviction").Create(ctx, pod, eviction)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return "evicted", nil
	case !apierrors.IsTooManyRequests(err):
		return "", fmt.Errorf("evict pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	cacheNode := &v1alpha1.CacheNode{}
	name := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[naming.LabelInstance]}
	if err := d.Get(ctx, name, cacheNode); err != nil {
		return "", err
	}
	return waits(cacheNode, err.Error(), d.now()), nil
}

// waits says what the eviction of a pod waits for; refusal is what the API server said. It changes once a minute.
func waits(cacheNode *v1alpha1.CacheNode, refusal string, now time.Time) string {
	c := meta.FindStatusCondition(cacheNode.Status.Conditions, v1alpha1.ConditionEvictionsWait)
	r := cacheNode.Status.Routing
	switch {
	case c != nil && c.Status == metav1.ConditionTrue && r != nil && r.HandoverUntil != nil:
		left := max(r.HandoverUntil.Sub(now), 0).Round(time.Minute)
		return fmt.Sprintf("waits until %s, while keys are handed over: %d min left",
			r.HandoverUntil.UTC().Format(time.RFC3339), int(left.Minutes()))
	case c != nil && c.Reason == v1alpha1.ReasonCordonFirst:
		return "waits until the operator has seen the cordon, and the hand-over begins"
	}
	return "waits: " + refusal
}

// say prints what has become of a pod, if that is news.
func (d drainer) say(pod *corev1.Pod, text string) {
	key := client.ObjectKeyFromObject(pod)
	if d.said[key] == text {
		return
	}
	d.said[key] = text
	const most = 1024
	_, _ = fmt.Fprintln(d.out, agentapi.Printable(fmt.Sprintf("pod %s: %s", key, text), most))
}
