package manifest_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/apply"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

var update = flag.Bool("update", false, "write the golden files")

// inputs returns the files with CacheNodes that serve as input: those for the golden files of nginx's configuration,
// and the samples for users.
func inputs(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{} // the key is the name of the golden file
	for prefix, pattern := range map[string]string{
		"":        "../nginx/cache/testdata/*.yaml",
		"sample-": "../../config/samples/cachenode*.yaml",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range found {
			files[prefix+filepath.Base(file)] = file
		}
	}
	return files
}

func build(t *testing.T, file string) []client.Object {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cacheNode, errs, err := schema.Decode(data)
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	if cacheNode.Namespace == "" {
		cacheNode.Namespace = "default"
	}
	cacheNode.UID = "11111111-2222-3333-4444-555555555555"
	chosen := effective.Of(cacheNode, effective.Before{Serving: effective.WithoutTier, Routing: v1alpha1.RoutingLocal})
	input := manifest.NewPodInput(chosen)
	images := manifest.Images{Agent: "localhost/cachenode-operator:test", Nginx: v1alpha1.DefaultImage}
	template, _, err := manifest.NewTemplate(input, "", nil, images, "0123456789ab")
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Build(manifest.Input{
		CacheNode:    chosen,
		Config:       manifest.ConfigMap{Stable: "{}"},
		Certificates: map[string][]byte{"ca.crt": []byte("none")},
		Template:     template,
	})
}

func TestGolden(t *testing.T) {
	for name, file := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			for _, object := range build(t, file) {
				text, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				got.WriteString("---\n")
				got.Write(text)
			}
			golden := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want +got), make golden updates it:\n%s", golden, diff)
			}
		})
	}
}

// TestAPIServerAcceptsRenderedManifests creates every golden object on a real API server in a dry run, with strict
// field validation. The namespace enforces the restricted Pod Security Standard. The test also applies the objects
// twice, and the second time nothing may change.
func TestAPIServerAcceptsRenderedManifests(t *testing.T) {
	c := apiserver.Client(t, apiserver.Start(t))
	ctx := context.Background()
	for _, name := range []string{"media", "restricted"} {
		namespace := &corev1.Namespace{}
		namespace.Name = name
		namespace.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
		if err := c.Create(ctx, namespace); err != nil {
			t.Fatal(err)
		}
	}
	for name, file := range inputs(t) {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range bytes.Split(data, []byte("---\n"))[1:] {
				object := &unstructured.Unstructured{}
				if err := yaml.Unmarshal(part, &object.Object); err != nil {
					t.Fatal(err)
				}
				strict := client.WithFieldValidation(c, "Strict")
				if err := strict.Create(ctx, object, client.DryRunAll); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
				if object.GetKind() == "StatefulSet" {
					checkRestricted(ctx, t, c, part)
				}
			}
		})
		objects := build(t, file)
		for _, object := range objects {
			for i, want := range []apply.Outcome{apply.Created, apply.Unchanged} {
				_, got, err := apply.Applier{Client: c, Live: c}.Apply(ctx, object)
				if err != nil || got != want {
					t.Errorf("apply %d of %T %s: %s, error %v; want %s", i+1, object, object.GetName(), got, err, want)
				}
			}
		}
		for _, object := range objects { // the samples have the same names
			if err := c.Delete(ctx, object); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checkRestricted creates a pod from the StatefulSet's template in a dry run, because the Pod Security Standard applies
// only to pods.
func checkRestricted(ctx context.Context, t *testing.T, c client.Client, statefulSet []byte) {
	t.Helper()
	var set struct {
		Spec struct {
			Template corev1.PodTemplateSpec
		}
	}
	if err := utilyaml.Unmarshal(statefulSet, &set); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	pod.Name, pod.Namespace = "pod", "restricted"
	pod.Spec.PriorityClassName = "" // the class does not exist here
	mounted := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		mounted[v.Name] = true
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts { // the disks' volumes come from claims
		if !mounted[m.Name] {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: m.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: m.Name},
			}})
		}
	}
	account := &corev1.ServiceAccount{}
	account.Name, account.Namespace = "default", "restricted"
	_ = c.Create(ctx, account) // exists already for the second sample
	if err := c.Create(ctx, pod, client.DryRunAll); err != nil {
		t.Errorf("a pod of the template is refused: %v", err)
	}
}
