package controllers

import (
	"context"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestReferred checks that an object causes passes over those fleets whose routes and Gateways refer to it.
func TestReferred(t *testing.T) {
	t.Parallel()
	name := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "team", Name: name} }
	var r referred
	r.set(name("first"), serviceKind, []types.NamespacedName{name("web"), name("old")})
	r.set(name("first"), serviceKind, []types.NamespacedName{name("web")})
	r.set(name("first"), secretKind, []types.NamespacedName{name("cert")})
	r.set(name("second"), serviceKind, []types.NamespacedName{name("web"), name("api")})
	r.set(name("gone"), serviceKind, []types.NamespacedName{name("web")})
	r.set(name("gone"), secretKind, []types.NamespacedName{name("cert")})
	r.forget(name("gone"))

	slice := team("web-x7k2p")
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	for what, tt := range map[string]struct {
		object client.Object
		want   []string
	}{
		"a Service of both":        {&corev1.Service{ObjectMeta: team("web")}, []string{"first", "second"}},
		"a Service of one":         {&corev1.Service{ObjectMeta: team("api")}, []string{"second"}},
		"one that was referred to": {&corev1.Service{ObjectMeta: team("old")}, nil},
		"endpoints":                {&discoveryv1.EndpointSlice{ObjectMeta: slice}, []string{"first", "second"}},
		"endpoints of no Service":  {&discoveryv1.EndpointSlice{ObjectMeta: team("web")}, nil},
		"a Secret":                 {&corev1.Secret{ObjectMeta: team("cert")}, []string{"first"}},
		"a Secret like a Service":  {&corev1.Secret{ObjectMeta: team("web")}, nil},
		"another namespace": {
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web"}}, nil,
		},
	} {
		var got []string
		for _, request := range r.to(context.Background(), tt.object) {
			got = append(got, request.Name)
		}
		slices.Sort(got)
		if diff := gocmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", what, diff)
		}
	}
}
