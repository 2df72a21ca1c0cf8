package purge_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestIndexAgrees purges objects while clients ask for them. After that, the indexes list exactly the files
// that exist.
func TestIndexAgrees(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	s.size = large
	var asking sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				s.get(fmt.Sprintf("/%d/%d", rand.IntN(5), rand.IntN(4)), "phone")
			}
		})
	}
	for range 100 {
		s.publish()
		group := fmt.Sprint(rand.IntN(5))
		target := []purge.Target{
			{Tags: []string{group}}, {Prefixes: []string{url("/" + group + "/")}}, {URLs: []string{url("/" + group + "/0")}},
		}[rand.IntN(3)]
		r := s.purge(target, rand.IntN(4) == 0)
		s.journal.endNow(r.Number)
		s.send()
	}
	close(end)
	asking.Wait()
	s.purge(purge.Target{URLs: []string{url("/0/0"), url("/1/1")}}, false) // nobody requests these objects again
	listed := map[string]bool{}
	await.True(t, "an index lists a file that does not exist, or lacks one that does", func() bool {
		clear(listed)
		var problems []string
		for _, store := range s.list(t, objects.Query{Target: purge.Target{Everything: true}, Most: 100}) {
			for _, o := range store.Objects {
				listed[o.Key] = true
				_, err := os.Stat(s.nginx.Root + cachekey.OnDisk(store.Name, o.Key))
				if err != nil || o.Key == url("/0/0") || o.Key == url("/1/1") {
					problems = append(problems, o.Key)
				}
			}
		}
		for group := range 5 {
			for i := range 4 {
				key := url(fmt.Sprintf("/%d/%d", group, i))
				for _, disk := range []string{"disk1", "disk2"} {
					if _, err := os.Stat(s.nginx.Root + cachekey.OnDisk(disk, key)); err == nil && !listed[key] {
						problems = append(problems, key)
					}
				}
			}
		}
		if len(problems) > 0 {
			t.Log(problems)
		}
		return len(problems) == 0
	})
}
