package cel

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/cli/file"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// TestSamples: an API server takes each sample, and the operator would accept it.
func TestSamples(t *testing.T) {
	samples, err := filepath.Glob("../../config/samples/cachenode*.yaml")
	if err != nil || len(samples) < 2 {
		t.Fatal("no samples", err)
	}
	c := apiserver.Client(t, apiserver.Start(t))
	for _, sample := range samples {
		t.Run(filepath.Base(sample), func(t *testing.T) {
			node, err := file.One(sample, os.Stdin)
			if err != nil {
				t.Fatal(err)
			}
			node.Namespace = "default"
			if err := c.Create(context.Background(), node, client.DryRunAll); err != nil {
				t.Error(err)
			}
		})
	}
}
