package cache_test

import (
	"os"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

func BenchmarkRender(b *testing.B) {
	data, err := os.ReadFile("testdata/article.yaml")
	if err != nil {
		b.Fatal(err)
	}
	cacheNode, _, err := schema.Decode(data)
	if err != nil {
		b.Fatal(err)
	}
	n, err := agentapi.NewRevision(effective.CacheNode{CacheNode: cacheNode}, "", "cluster.local", nil)
	if err != nil {
		b.Fatal(err)
	}
	in := cache.Input{Revision: n}
	for b.Loop() { // the plan is remembered, as in the operator
		if _, err := cache.Render(in); err != nil {
			b.Fatal(err)
		}
	}
}
