package controllers

import (
	"context"
	"sync/atomic"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// unwritable is a client that cannot write a status while broken is true.
type unwritable struct {
	client.Client
	broken *atomic.Bool
}

// Status implements [client.StatusClient].
func (u unwritable) Status() client.SubResourceWriter {
	return unwritableStatus{u.Client.Status(), u.broken}
}

type unwritableStatus struct {
	client.SubResourceWriter
	broken *atomic.Bool
}

// Patch implements [client.SubResourceWriter].
func (u unwritableStatus) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
) error {
	if u.broken.Load() {
		return apierrors.NewInternalError(errWebhook)
	}
	return u.SubResourceWriter.Patch(ctx, object, patch, options...)
}

// TestUntold checks the event about an action of a pass that could not write the status. A later pass that can write
// the status must send this event, and only once.
func TestUntold(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	a := newAgents()
	o := startOperator(t, apiserver.Shared(t), func(r *CacheNodeReconciler) {
		r.Agents.Calls.Report, r.Client = a.read, unwritable{r.Client, &broken}
	})
	a.set(func() { a.o = o })
	cacheNode := o.create(edge)
	o.eventually(func() string {
		if o.get(cacheNode); len(cacheNode.Status.Conditions) == 0 {
			return "there is no status"
		}
		return ""
	})
	o.makePods(cacheNode, 2)
	o.rollOut(cacheNode)
	o.settle(cacheNode)
	told := func() (n int) {
		list := &eventsv1.EventList{}
		must(t, o.client.List(context.Background(), list, client.InNamespace("default")))
		for _, e := range list.Items {
			if e.Reason == "DiskDrained" && e.Regarding.UID == cacheNode.UID {
				n++
			}
		}
		return n
	}
	failed := o.queues.passes.failed.Load()
	broken.Store(true)
	o.get(cacheNode)
	before := cacheNode.DeepCopy()
	cacheNode.Annotations = map[string]string{v1alpha1.Drain.Annotation("edge-0", "disk1"): "true"}
	cacheNode.Spec.Disks[0].Size = resource.MustParse("5Gi") // this edit changes the status too
	must(t, o.client.Patch(context.Background(), cacheNode, client.MergeFrom(before)))
	o.eventually(func() string {
		if o.queues.passes.failed.Load() == failed {
			return "no pass has failed"
		}
		return ""
	})
	if n := told(); n > 0 {
		t.Errorf("%d events before the status was written", n)
	}
	broken.Store(false)
	o.hasEvents("DiskDrained")
	o.pass(cacheNode)
	if n := told(); n != 1 {
		t.Errorf("%d events, want one", n)
	}
}
