// Package chart lets a real API server check the objects that the Helm chart and config/ render. The script
// test/chart/check runs these tests.
package chart

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// read returns the objects of a file that test/chart/check has rendered.
func read(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	dir := os.Getenv("RENDERED")
	if dir == "" {
		t.Fatal("RENDERED is not set: make test-chart renders the chart and runs this")
	}
	data, err := os.ReadFile(filepath.Join(dir, name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func TestAPIServerAcceptsRenderedManifests(t *testing.T) {
	t.Parallel()
	files := map[string][]*unstructured.Unstructured{}
	for _, name := range []string{"defaults", "others", "everything", "kustomize"} {
		files[name] = read(t, name)
	}
	c := apiserver.Client(t, apiserver.Start(t, os.Getenv("MONITORING_CRDS")))
	ctx := context.Background()
	for _, name := range []string{"test", "cachenode-system"} {
		namespace := &corev1.Namespace{}
		namespace.Name = name
		if err := c.Create(ctx, namespace); err != nil {
			t.Fatal(err)
		}
	}
	strict := client.WithFieldValidation(c, "Strict")
	for name, objects := range files {
		if len(objects) < 5 {
			t.Errorf("%s has %d objects", name, len(objects))
		}
		for _, object := range objects {
			kind := object.GetKind()
			if kind == "CustomResourceDefinition" || kind == "Namespace" {
				continue // the API server of the tests already has them
			}
			if err := strict.Create(ctx, object.DeepCopy(), client.DryRunAll); err != nil {
				t.Errorf("%s: %s %s: %v", name, kind, object.GetName(), err)
			}
		}
	}
}

// TestSamePermissions checks that the chart and config/ grant the same permissions, and that no permission contains a
// wildcard.
func TestSamePermissions(t *testing.T) {
	chart, kustomize := rules(t, read(t, "defaults")), rules(t, read(t, "kustomize"))
	if diff := cmp.Diff(chart, kustomize); diff != "" {
		t.Errorf("permissions (-chart +config):\n%s", diff)
	}
	for _, rule := range chart {
		for _, list := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
			if slices.Contains(list, "*") {
				t.Errorf("a wildcard in %v", rule)
			}
		}
	}
}

// rules returns the rules of all roles that the operator has. It leaves out the roles of others: for reading metrics,
// for users, and for helm test.
func rules(t *testing.T, objects []*unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	var all []rbacv1.PolicyRule
	for _, kind := range []string{"ClusterRole", "Role"} {
		for _, object := range objects {
			if object.GetKind() != kind {
				continue
			}
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
				t.Fatal(err)
			}
			forOthers := role.Rules[0].NonResourceURLs != nil || object.GetAnnotations()["helm.sh/hook"] != "" ||
				aggregated(object)
			if !forOthers {
				all = append(all, role.Rules...)
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}

// aggregated returns true for a role whose rules Kubernetes adds to a default role of the cluster.
func aggregated(object *unstructured.Unstructured) bool {
	for label := range object.GetLabels() {
		if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") {
			return true
		}
	}
	return false
}

// TestScopedPermissions checks the permissions of an operator that watches only some namespaces. Its Roles in these
// namespaces grant all rights for namespaced resources. Its ClusterRoles grant only rights for resources that are in no
// namespace.
func TestScopedPermissions(t *testing.T) {
	count := map[string]int{}
	for _, object := range read(t, "everything") {
		kind, name := object.GetKind(), object.GetName()
		if kind != "ClusterRole" && kind != "Role" || object.GetAnnotations()["helm.sh/hook"] != "" ||
			aggregated(object) || strings.HasSuffix(name, "-metrics-reader") {
			continue
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				unnamespaced := slices.Contains([]string{
					"nodes", "persistentvolumes", "storageclasses", "tokenreviews", "subjectaccessreviews",
					"namespaces", "gatewayclasses", "gatewayclasses/status", "customresourcedefinitions",
				}, resource)
				if unnamespaced != (kind == "ClusterRole") {
					t.Errorf("%s %s has rights for %s", kind, name, resource)
				}
				count[kind+" "+object.GetNamespace()]++
			}
		}
	}
	// The operator watches two namespaces. In the release's namespace "test", there are three more rights, which leader
	// election needs. Two of the ClusterRoles' rights belong to the endpoint for purges.
	inOther, in := count["Role cachenode-system"], count["Role test"]
	if inOther == 0 || in != inOther+3 || count["ClusterRole "] != 11 {
		t.Errorf("resources by kind and namespace: %v", count)
	}
}

// TestNginxImage checks that the chart and the operator have the same default image of nginx. The version of this image
// must be agentapi.MinNginx, the oldest version without a known security hole. So whoever raises MinNginx must also
// raise both defaults.
func TestNginxImage(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../charts/cachenode-operator/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values := struct {
		NginxImage string `json:"nginxImage"`
	}{}
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	floor := "docker.io/library/nginx:" + agentapi.MinNginx
	if values.NginxImage != floor || v1alpha1.DefaultImage != floor {
		t.Errorf("the chart has %s and the operator %s, want %s", values.NginxImage, v1alpha1.DefaultImage, floor)
	}
}
