package cache_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

var update = flag.Bool("update", false, "write the golden files anew")

// decode reads a CacheNode as the API server would store it.
func decode(t *testing.T, data []byte) cache.Input {
	t.Helper()
	node, errs, err := schema.Decode(data)
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	return cache.Input{
		Namespace: "default",
		Spec:      node.Spec,
		Plan:      shard.NewPlan(tuning.ShardDisks(node.Spec.Disks)),
		Facts: cache.Facts{
			Workers:       tuning.Workers(node.Spec.Pod.Resources.Limits.Cpu()),
			Resolvers:     []string{"10.96.0.10"},
			ClusterDomain: "cluster.local",
		},
	}
}

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := cache.Render(decode(t, data))
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".conf"
			if *update {
				if err := os.WriteFile(golden, []byte(got.Text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.Text); diff != "" {
				t.Errorf("%s (-want +got), \"go test ./internal/nginx/cache -update\" writes it anew:\n%s", golden, diff)
			}
		})
	}
}
