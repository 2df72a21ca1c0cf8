package controllers

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// failing is a client whose writes of Services fail, as they do behind a webhook that answers with an error.
type failing struct {
	client.Client
	broken *atomic.Bool
}

var errWebhook = errors.New(`failed calling webhook "policy.example.com": 500`)

// Apply implements [client.Writer].
func (f failing) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	if named, ok := object.(interface{ GetKind() string }); ok && f.broken.Load() && named.GetKind() == "Service" {
		return apierrors.NewInternalError(errWebhook)
	}
	return f.Client.Apply(ctx, object, options...)
}

// TestErrorsThatLast checks that the status shows an error that lasts, whatever the status showed before. It also
// checks that the status does not show a transient error.
func TestErrorsThatLast(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	o := startOperator(t, apiserver.Shared(t), func(r *CacheNodeReconciler) {
		r.Client = failing{r.Client, &broken}
	})
	cacheNode := o.create(edge)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	o.rollOut(cacheNode)
	o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	o.settle(cacheNode)
	broken.Store(true)
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Service.Annotations = map[string]string{"example.com/a": "b"} })
	request := requestFor(cacheNode)
	fails := func() {
		t.Helper()
		_, err := o.reconciler.Reconcile(context.Background(), request)
		if err == nil || !strings.Contains(err.Error(), "policy.example.com") {
			t.Fatalf("the pass ends with %v", err)
		}
	}
	o.eventually(func() string { // until the cache shows the edit
		if _, err := o.reconciler.Reconcile(context.Background(), request); err == nil {
			return "no pass fails"
		}
		return ""
	})
	fails()
	if o.get(cacheNode); !strings.Contains(describe(cacheNode), "Ready=True") {
		t.Errorf("a passing error reached the status: %s", describe(cacheNode))
	}
	o.clock.Step(failureAfter + time.Second)
	fails()
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionDegraded, v1alpha1.ReasonApplyFailed)
	if text := describe(cacheNode); !strings.Contains(text, "policy.example.com") || strings.Contains(text, "Ready=True") {
		t.Errorf("the lasting error is not in the status: %s", text)
	}
	broken.Store(false)
	o.pass(cacheNode)
	o.rollOut(cacheNode)
	o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	service := children(cacheNode)[1].(*corev1.Service)
	if o.get(service); service.Annotations["example.com/a"] != "b" {
		t.Error("the edit has not arrived")
	}
}
