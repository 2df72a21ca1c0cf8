package chart

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// TestClassWrites checks that the policy lets the operator change the finalizers of GatewayClasses, and nothing else,
// although the operator's role allows this.
func TestClassWrites(t *testing.T) {
	t.Parallel()
	admin, as := policies(t, apiserver.GatewayAPI(t)...)
	class := &gw.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: gw.GatewayClassSpec{ControllerName: gateways.Controller},
	}
	isRefused(t, as(operator), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "victim"}})
	create(t, admin, class)
	const refused = "the CacheNode operator must not write GatewayClasses, except their finalizers"
	for patch, want := range map[string]string{
		`{"metadata": {"finalizers": ["` + gw.GatewayClassFinalizerGatewaysExist + `"]}}`: "",
		`{"spec": {"description": "a"}}`: refused,
		`{"metadata": {"labels": {"app.kubernetes.io/managed-by": "cachenode-operator"}}}`: refused,
		`{"metadata": {"annotations": {"a": "b"}}}`:                                        refused,
	} {
		err := as(operator).Patch(context.Background(), class.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
		check(t, err, want)
	}
}
