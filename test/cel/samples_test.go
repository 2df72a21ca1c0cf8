package cel

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// TestAPIServerAcceptsSamples checks that an API server accepts every object of each sample, and that the operator
// would accept the CacheNodes.
func TestAPIServerAcceptsSamples(t *testing.T) {
	t.Parallel()
	samples, err := filepath.Glob("../../config/samples/cachenode*.yaml")
	if err != nil || len(samples) < 5 {
		t.Fatal("no samples", err)
	}
	c := client.WithFieldValidation(apiserver.Client(t, apiserver.Shared(t)), "Strict")
	for _, sample := range samples {
		t.Run(filepath.Base(sample), func(t *testing.T) {
			if _, err := file.One(sample, os.Stdin); err != nil {
				t.Error(err)
			}
			text, err := os.ReadFile(sample)
			if err != nil {
				t.Fatal(err)
			}
			documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
			for {
				document, err := documents.Read()
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				object := &unstructured.Unstructured{}
				if err := yaml.Unmarshal(document, &object.Object); err != nil {
					t.Fatal(err)
				}
				object.SetNamespace("default")
				if err := c.Create(context.Background(), object, client.DryRunAll); err != nil {
					t.Errorf("%s: %v", object.GetKind(), err)
				}
			}
		})
	}
}
