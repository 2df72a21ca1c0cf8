package purge

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// TestAwait checks how often the verb reads the CachePurge, when it prints what the purge waits for, and how the wait
// ends.
func TestAwait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ends        int // the number of the read that finds the purge applied; 0: never
		looks       [2]int
		said, error string
	}{
		"at once":     {ends: 1, looks: [2]int{1, 1}},
		"in a moment": {ends: 20, looks: [2]int{20, 20}}, // within a second: the verb prints nothing
		"after long":  {ends: 60, looks: [2]int{60, 60}, said: "cachepurge/edge-1: edge-0: it waits\n"},
		"not in time": {looks: [2]int{80, 120}, said: "cachepurge/edge-1: edge-0: it waits\n", error: "is not applied yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{Get: func(
					_ context.Context, _ client.WithWatch, _ client.ObjectKey, object client.Object, _ ...client.GetOption,
				) error {
					cp := object.(*v1alpha1.CachePurge)
					cp.Name, cp.Status.Phase, cp.Status.Message = "edge-1", v1alpha1.PurgePending, "edge-0: it waits"
					if looks++; looks == tt.ends {
						cp.Status.Phase = v1alpha1.PurgeApplied
					}
					return nil
				}}).Build()
				cp := &v1alpha1.CachePurge{}
				cp.Name = "edge-1"
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var said strings.Builder
				err := (&options{wait: untilApplied}).await(ctx, c, cp, &said)
				if (err == nil) != (tt.error == "") || err != nil && !strings.Contains(err.Error(), tt.error) {
					t.Errorf("error %v, want %q", err, tt.error)
				}
				if looks < tt.looks[0] || looks > tt.looks[1] || said.String() != tt.said {
					t.Errorf("%d looks, want %v; it says %q, want %q", looks, tt.looks, said.String(), tt.said)
				}
			})
		})
	}
}
