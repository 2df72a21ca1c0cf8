package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCluster checks that the test cluster itself behaves as people and the other tests expect.
func TestCluster(t *testing.T) {
	nativeOnly(t)
	const node, disk = "node-1", "disk9"
	t.Run("a fault hits the disk that was added, and never the machine's own", func(t *testing.T) {
		path := cluster(t, "fault", "add", node, disk)
		cluster(t, "fault", "drop", node, disk)
		const nothing = "1000000000" // the MiB to leave free: no disk has so many, so nothing is written
		if _, err := tryCluster("fault", "fill", node, disk, nothing); err == nil {
			t.Fatal("fill does not see that no disk is mounted")
		}
		cluster(t, "fault", "add", node, disk)
		t.Cleanup(func() { cluster(t, "fault", "drop", node, disk) })
		cluster(t, "fault", "fill", node, disk, "900")
		cluster(t, "fault", "exec", node, "test", "-s", path+"/stranger")
	})
	t.Run("an image that a node has lost is loaded again", func(t *testing.T) {
		const image = "localhost/cachenode-origin:test"
		archive := filepath.Join(filepath.Dir(filepath.Dir(os.Getenv("CACHENODE_TEST_CLIENT"))), "origin.tar")
		images := func(args ...string) string {
			ctr := []string{"fault", "exec", node, "ctr", "-a", "/run/containerd-" + node + ".sock", "-n", "k8s.io", "images"}
			return cluster(t, append(ctr, args...)...)
		}
		cluster(t, "load", archive)
		images("rm", image)
		cluster(t, "load", archive)
		if list := images("list", "-q", "name=="+image); !strings.Contains(list, image) {
			t.Errorf("after it was loaded, the node has %q", list)
		}
	})
}
