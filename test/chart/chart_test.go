// Package chart has a real API server check what the Helm chart and config/ render: see test/chart/check.
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
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// read reads a file that test/chart/check has rendered.
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

func TestAPIServerTakesThem(t *testing.T) {
	files := map[string][]*unstructured.Unstructured{}
	for _, name := range []string{"defaults", "others", "kustomize"} {
		files[name] = read(t, name)
	}
	c := apiserver.Client(t, apiserver.Start(t))
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
				continue // the API server of the tests has them
			}
			if err := strict.Create(ctx, object.DeepCopy(), client.DryRunAll); err != nil {
				t.Errorf("%s: %s %s: %v", name, kind, object.GetName(), err)
			}
		}
	}
}

// TestSamePermissions holds the chart and config/ to the same rules, and both to no wildcard.
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

// rules are those of all roles but the one for reading metrics, which is for others.
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
			if role.Rules[0].NonResourceURLs == nil {
				all = append(all, role.Rules...)
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}
