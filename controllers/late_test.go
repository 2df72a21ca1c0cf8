package controllers

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// late is a client that does not show PodDisruptionBudgets while behind is true, like an informer cache that lags
// behind.
type late struct {
	client.Client
	behind *atomic.Bool
}

// Get implements [client.Reader].
func (l late) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*policyv1.PodDisruptionBudget); ok && l.behind.Load() {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "poddisruptionbudgets"}, key.Name)
	}
	return l.Client.Get(ctx, key, object, options...)
}

// TestLateCache checks the operator while its cache does not show an object that the operator has created. The operator
// then tries again at growing intervals and changes nothing. When the cache shows the object, the operator continues.
func TestLateCache(t *testing.T) {
	t.Parallel()
	var behind atomic.Bool
	behind.Store(true)
	o := startOperator(t, apiserver.Shared(t), func(r *CacheNodeReconciler) { r.Client = late{r.Client, &behind} })
	cacheNode := o.create(edge)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	begun, tries := o.clock.Now(), 0
	until := func(wanted int, least time.Duration, write func(string)) {
		o.eventually(func() string {
			for _, request := range o.requests.all() {
				if strings.HasPrefix(request, "POST ") && strings.HasSuffix(request, "/poddisruptionbudgets") {
					tries++
				} else if !isRead(request) {
					write(request)
				}
			}
			if passed := o.clock.Since(begun); tries < wanted || passed < least {
				return fmt.Sprintf("%d tries in %s", tries, passed)
			}
			return ""
		})
	}
	until(3, 0, func(string) {}) // the status and the events of a new CacheNode
	until(6, 15*time.Second, func(request string) { t.Errorf("it wrote: %s", request) })
	// Each delay is twice the previous delay. Some additional tries are caused by events about the operator's own writes.
	passed := o.clock.Since(begun)
	if most := 5 + int(math.Log2(1+float64(passed)/float64(lateDelay))); tries > most {
		t.Errorf("%d tries in %s, want at most %d", tries, passed, most)
	}
	behind.Store(false)
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Service.Annotations = map[string]string{"example.com/a": "b"} })
	service := children(cacheNode)[1]
	o.eventually(func() string {
		if o.get(service); service.GetAnnotations()["example.com/a"] == "b" {
			return ""
		}
		return "the edit does not arrive"
	})
}
