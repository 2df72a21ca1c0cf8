package e2e

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/shard"
	"github.com/cachenode/cachenode-operator/test/client/report"
	"github.com/cachenode/cachenode-operator/test/content"
)

// objects are 300 distinct objects of 1 KB to 8 MB, evenly spread over the orders of magnitude.
var objects = func() []string {
	paths := make([]string, 300)
	for i := range paths {
		size := 1e3 * math.Pow(8e3, float64(i)/float64(len(paths)-1))
		paths[i] = content.Path(int(size), fmt.Sprintf("object-%d", i))
	}
	return paths
}()

// key returns the cache key of a path, according to the sample's spec.cache.key.
func key(path string) []byte { return []byte("http://" + name + path) }

// record checks that each result is a HIT if the pod has served the path before, and a MISS otherwise. It returns the
// number of HITs.
func (s *suite) record(t *testing.T, results []report.Result, tree shard.Tree) (hits int) {
	t.Helper()
	for _, r := range results {
		want := "MISS"
		if s.served[r.Pod][r.Path] {
			want = "HIT"
			hits++
		}
		if r.Error != "" || r.Cache != want {
			t.Errorf("%s from %s: %s, want %s (error %q)", r.Path, r.Pod, r.Cache, want, r.Error)
		}
		if disk := tree.Owner(key(r.Path)); r.Disk != disk {
			t.Errorf("%s is on %s, want %s", r.Path, r.Disk, disk)
		}
		if s.served[r.Pod] == nil {
			s.served[r.Pod] = map[string]bool{}
		}
		s.served[r.Pod][r.Path] = true
	}
	return hits
}

func servesByPlan(t *testing.T, s *suite) {
	cacheNode := s.cacheNode(t)
	tree := shard.NewPlan(effective.ShardDisks(cacheNode.Spec.Disks)).Tree()
	for pass := range 2 {
		hits := s.record(t, s.fetch(t, pass, objects, "-base", base), tree)
		if pass == 1 && hits < 50 {
			t.Errorf("%d HITs in the second pass: with three pods it should be about a third of 300", hits)
		}
		t.Logf("pass %d, from node %d, through the Service: %d of %d objects are HITs, all bytes right",
			pass+1, pass+1, hits, len(objects))
	}
	for pod, paths := range s.served {
		counts := checkFiles(t, pod, paths, tree)
		t.Logf("%s: objects by disk %v", pod, counts)
		if len(counts) != 3 {
			t.Errorf("%s uses %d disks, want 3", pod, len(counts))
		}
	}
	if len(s.served) != 3 {
		t.Errorf("%d pods have answered, want 3", len(s.served))
	}
}

// checkFiles compares a pod's cache files with the objects that the pod has served. Each file must be on the disk that
// the plan names, at the path that nginx derives from the MD5 of the key. It must contain the body and a header.
// checkFiles returns the number of files on each disk.
func checkFiles(t *testing.T, pod string, served map[string]bool, tree shard.Tree) (count map[string]int) {
	t.Helper()
	want, disks := map[string]int64{}, map[string]string{}
	for path := range served {
		disk := tree.Owner(key(path))
		sum := md5.Sum(key(path))
		hash := hex.EncodeToString(sum[:])
		// This is levels=1:2. The test computes the path itself, so that it does not depend on the plugin's code.
		file := layout.CacheDir(disk) + "/" + hash[31:] + "/" + hash[29:31] + "/" + hash
		want[file], _ = content.Size(path)
		disks[file] = disk
	}
	count = map[string]int{}
	sizes, wantSizes := map[string]int64{}, map[string]int64{}
	for _, line := range cacheFiles(t, pod, "%p %s") {
		file, text, _ := strings.Cut(line, " ")
		size, err := strconv.ParseInt(text, 10, 64)
		must(t, err)
		body, expected := want[file]
		if !expected || size < body || size > body+2048 {
			t.Errorf("%s: %s has %d bytes; expected: %t, with a body of %d", pod, file, size, expected, body)
		}
		count[disks[file]]++
		sizes[disks[file]] += size
		wantSizes[disks[file]] += body
		delete(want, file)
	}
	for file := range want {
		t.Errorf("%s: %s is missing", pod, file)
	}
	for disk := range sizes {
		t.Logf("%s: %s holds %d bytes in %d files, %d of them bodies", pod, disk, sizes[disk], count[disk], wantSizes[disk])
	}
	return count
}

// comesBackWarm deletes a pod, and waits until it is recreated. Then all objects that the pod had served must be HITs,
// without a request to the origin.
func comesBackWarm(t *testing.T, s *suite) {
	ctx := context.Background()
	const victim = name + "-1"
	pod := &corev1.Pod{}
	must(t, s.Get(ctx, client.ObjectKey{Name: victim}, pod))
	before := pod.UID
	must(t, s.Delete(ctx, pod))
	within(t, 2*time.Minute, func() string {
		must(t, client.IgnoreNotFound(s.Get(ctx, client.ObjectKey{Name: victim}, pod)))
		if pod.UID == before || !isReady(*pod) {
			return victim + " does not come back"
		}
		return ""
	})
	var paths []string
	for path := range s.served[victim] {
		paths = append(paths, path)
	}
	asked := s.originCount(t)
	for _, r := range s.fetch(t, 0, paths, "-base", "http://"+pod.Status.PodIP+":8080", "-host", name) {
		if r.Error != "" || r.Cache != "HIT" || r.Pod != victim {
			t.Errorf("%s: %s from %s (error %q), want a HIT", r.Path, r.Cache, r.Pod, r.Error)
		}
	}
	if now := s.originCount(t); now != asked {
		t.Errorf("the origin was asked: %s before, %s after", asked, now)
	}
	t.Logf("%d objects are HITs on the new pod", len(paths))
	s.current(t)
}

func mustItems(t *testing.T, list client.ObjectList) []runtime.Object {
	t.Helper()
	items, err := meta.ExtractList(list)
	must(t, err)
	return items
}

// servesFromMemory checks that the memory tier is on by default, and that it serves a hot object instead of the disk.
func servesFromMemory(t *testing.T, s *suite) {
	p := s.target(t, name+"-0")
	to := []string{"-base", "http://" + p.pod(t).Status.PodIP + ":8080", "-host", name, "-keepalive"}
	s.fetch(t, 0, objects[:1], to...)
	before := s.originCount(t)
	var places []string
	files := ""
	within(t, time.Minute, func() string { // the copy is made in the background, and stays for half a minute
		for _, r := range s.fetch(t, 0, slices.Repeat(objects[:1], 12), to...) {
			places = append(places, r.Cache+" "+r.Disk)
			if r.Error != "" {
				t.Errorf("%s: %s", r.Path, r.Error)
			}
		}
		files = inNginx(t, p.name, "find", layout.MemoryTierCache, "-type", "f")
		if got, n := places[len(places)-1], len(strings.Fields(files)); got != "HIT memory" || n != 1 {
			return fmt.Sprintf("it came from %q, and %d files are in memory", places, n)
		}
		return ""
	})
	if s.originCount(t) != before {
		t.Errorf("the origin was asked for %s objects before and %s after", before, s.originCount(t))
	}
	status := s.cacheNode(t).Status
	said := strings.Join(status.Tuning, "\n")
	if !strings.Contains(said, "memoryTier is on") || !strings.Contains(said, "io.mode is Threads") {
		t.Errorf("status.tuning is %q", said)
	}
	for _, d := range status.Disks {
		if !strings.HasPrefix(d.FileSystem, "xfs, blocks of 4Ki, read-ahead ") ||
			!strings.Contains(d.Advice, "a cold hit costs about") {
			t.Errorf("%s is said to be %q, and the advice is %q", d.Name, d.FileSystem, d.Advice)
		}
	}
}
