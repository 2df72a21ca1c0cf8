package cache_test

import (
	"os"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/revision"
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
	n, err := revision.Of(effective.CacheNode{CacheNode: cacheNode}, revision.Outside{ClusterDomain: "cluster.local"})
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
