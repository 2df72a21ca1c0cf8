package cache_test

import (
	"os"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

func BenchmarkRender(b *testing.B) {
	data, err := os.ReadFile("testdata/article.yaml")
	if err != nil {
		b.Fatal(err)
	}
	node, _, err := schema.Decode(data)
	if err != nil {
		b.Fatal(err)
	}
	n, err := agentapi.NewNode(node, "", "cluster.local", nil)
	if err != nil {
		b.Fatal(err)
	}
	in := cache.Input{Node: n}
	for b.Loop() { // the plan is remembered, as in the operator
		if _, err := cache.Render(in); err != nil {
			b.Fatal(err)
		}
	}
}
