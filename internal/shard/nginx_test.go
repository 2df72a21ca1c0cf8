package shard_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// TestDiskIsNginxs compares Tree.Owner with the real nginx. It uses 20,000 keys for a plan in two levels, and 1,000
// keys for a single disk.
func TestDiskIsNginxs(t *testing.T) {
	t.Run("two levels", func(t *testing.T) {
		compare(t, "[{name: disk1, size: 1Ti}, {name: disk2, size: 2Ti}, "+
			"{name: disk3, size: 3Ti}, {name: disk4, size: 100Gi}]", 20000)
	})
	t.Run("one disk", func(t *testing.T) {
		compare(t, "[{name: disk1, size: 1Ti}]", 1000)
	})
}

func compare(t *testing.T, disks string, keys int) {
	t.Helper()
	cacheNode, errs, err := schema.Decode([]byte(`
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge}
spec:
  disks: ` + disks + `
  origin: {servers: [{host: 127.0.0.1, port: 9000}], hostHeader: www.example.com}
  cache: {key: [URI, Args]}
`))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	plan := shard.NewPlan(effective.ShardDisks(cacheNode.Spec.Disks))
	outside := revision.Outside{ClusterDomain: "cluster.local"}
	content, err := revision.Of(effective.CacheNode{CacheNode: cacheNode}, outside)
	if err != nil {
		t.Fatal(err)
	}
	config, err := cache.Render(cache.Input{Revision: content, Facts: cache.Facts{Cores: 2}})
	if err != nil {
		t.Fatal(err)
	}
	// This is the rendered file with a different location: it returns the name of the disk and does not ask the origin.
	before, _, _ := strings.Cut(config.Text, "        location / {")
	next := "        location @uncached {"
	if len(cacheNode.Spec.Disks) > 1 {
		next = "        location @other_disk {"
	}
	_, after, found := strings.Cut(config.Text, next)
	if !found {
		t.Fatal("the configuration has changed its form")
	}
	n := nginxtest.New(t)
	n.Configure(before+"        location / { return 200 $disk; }\n"+next+after, plan.Members()...)
	n.Start()

	tree := plan.Tree()
	client := n.Client()
	work := make(chan string)
	var group sync.WaitGroup
	var mutex sync.Mutex
	counts := map[string]int{}
	for range 8 {
		group.Go(func() {
			for key := range work {
				got := ask(t, client, key)
				if want := tree.Owner([]byte(key)); got != want {
					t.Errorf("key %q: nginx says %q, we say %q", key, got, want)
				}
				mutex.Lock()
				counts[got]++
				mutex.Unlock()
			}
		})
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range keys {
		// The hash reads four bytes at a time. The keys have different lengths, so that every remainder occurs.
		work <- fmt.Sprintf("/%d/%s", i, strings.Repeat("x", rng.IntN(40)))
	}
	close(work)
	group.Wait()
	for _, disk := range plan.Members() {
		share := float64(counts[disk]) / float64(keys) * 100
		t.Logf("%s: %d of %d keys, %.2f%%; the plan says %.2f%%",
			disk, counts[disk], keys, share, float64(plan.Share(disk))/100)
		if want := float64(plan.Share(disk)) / 100; share < want-2 || share > want+2 {
			t.Errorf("%s has %.2f%% of the keys, want about %.2f%%", disk, share, want)
		}
	}
}

func ask(t *testing.T, client *http.Client, key string) string {
	response, err := client.Get((&url.URL{Scheme: "http", Host: "127.0.0.1:8080", Path: key}).String())
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}
