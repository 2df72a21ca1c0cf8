package controllers

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gw "sigs.k8s.io/gateway-api/apis/v1"
)

// TestVersionOfTheGatewayAPI checks that the status of a class follows the version of the installed
// CustomResourceDefinitions. They are not watched, so each pass plans another one.
func TestVersionOfTheGatewayAPI(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := gatewayOperator(t)
	o.apply(aGateway)
	o.settle(o.create(aFleet))
	class := &gw.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	crd := &metav1.PartialObjectMetadata{}
	crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	crd.Name = "gatewayclasses." + gw.GroupName
	r := &GatewayClassReconciler{Client: o.client, Live: o.client}
	for _, step := range []struct{ version, want string }{
		{"v1.4.0", "False UnsupportedVersion"}, {"", "Unknown VersionUnknown"}, {"v1.6.3", "True SupportedVersion"},
	} {
		o.get(crd)
		changed := crd.DeepCopy()
		changed.Annotations["gateway.networking.k8s.io/bundle-version"] = step.version
		must(t, o.client.Patch(ctx, changed, client.MergeFrom(crd)))
		o.get(class)
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(class)})
		must(t, err)
		if result.RequeueAfter != versionInterval {
			t.Errorf("%q: the next pass comes after %s", step.version, result.RequeueAfter)
		}
		o.get(class)
		if got := condition(class.Status.Conditions, "SupportedVersion"); got != step.want {
			t.Errorf("%q: the class is %s, want %s", step.version, got, step.want)
		}
	}
}
