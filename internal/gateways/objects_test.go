package gateways_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
)

// TestUnknownNamespaces checks that objects wait for their namespace, because its UID is a part of keys.
func TestUnknownNamespaces(t *testing.T) {
	t.Parallel()
	in := func(namespace string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: "a"} }
	objects := gateways.Objects{
		Classes:    []gw.GatewayClass{{Spec: gw.GatewayClassSpec{ControllerName: gateways.Controller}}},
		Gateways:   []gw.Gateway{{ObjectMeta: in("known")}, {ObjectMeta: in("new")}},
		HTTPRoutes: []gw.HTTPRoute{{ObjectMeta: in("new")}, {ObjectMeta: in("known")}},
		Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "known"}}},
	}
	s := objects.State(gateways.FleetFor(gateways.NoFleet, nil, ""))
	if len(s.Gateways) != 1 || s.Gateways[0].Namespace != "known" || len(s.HTTPRoutes) != 1 ||
		s.HTTPRoutes[0].Namespace != "known" {
		t.Errorf("Gateways %v, HTTPRoutes %v", s.Gateways, s.HTTPRoutes)
	}
}
