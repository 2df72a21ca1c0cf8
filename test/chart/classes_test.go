package chart

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// TestClassWrites checks that the policy lets the operator change its own finalizer of its GatewayClasses, and nothing
// else, although the operator's role allows this.
func TestClassWrites(t *testing.T) {
	t.Parallel()
	admin, as := policies(t, apiserver.GatewayAPI(t)...)
	isRefused(t, as(operator), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "victim"}})
	const refused = "the CacheNode operator must not write GatewayClasses, except its finalizer"
	patch := func(controller gw.GatewayController, patch, want string) {
		t.Helper()
		class := &gw.GatewayClass{
			ObjectMeta: metav1.ObjectMeta{Name: "edge", Finalizers: []string{"platform.example.com/keep"}},
			Spec:       gw.GatewayClassSpec{ControllerName: controller},
		}
		create(t, admin, class)
		err := as(operator).Patch(context.Background(), class.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
		check(t, err, want)
		class.Finalizers = nil
		if err := errors.Join(admin.Update(context.Background(), class),
			admin.Delete(context.Background(), class)); err != nil {
			t.Fatal(err)
		}
	}
	const ours = `{"metadata": {"finalizers": ["platform.example.com/keep", "` +
		gw.GatewayClassFinalizerGatewaysExist + `"]}}`
	patch(gateways.Controller, ours, "")
	patch("example.com/other", ours, refused)
	for _, text := range []string{
		`{"metadata": {"finalizers": ["` + gw.GatewayClassFinalizerGatewaysExist + `"]}}`,
		`{"metadata": {"finalizers": ["platform.example.com/keep", "mallory.example.com/stuck"]}}`,
		`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "0"}]}}`,
		`{"metadata": {"labels": {"app.kubernetes.io/managed-by": "cachenode-operator"}}}`,
		`{"metadata": {"annotations": {"a": "b"}}}`,
		`{"spec": {"description": "a"}}`,
	} {
		patch(gateways.Controller, text, refused)
	}
}
