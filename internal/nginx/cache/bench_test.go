package cache_test

import (
	"os"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/tuning"
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
	in := cache.Input{Namespace: "default", Spec: node.Spec, Plan: shard.NewPlan(tuning.ShardDisks(node.Spec.Disks))}
	for b.Loop() {
		if _, err := cache.Render(in); err != nil {
			b.Fatal(err)
		}
	}
}
