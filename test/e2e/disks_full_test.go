package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/test/content"
)

// twoPods creates a CacheNode with two pods, for which three nodes are available.
func twoPods(t *testing.T, s *suite) {
	kubectl(t, "", "label", "nodes", "--all", "--overwrite", label+"=true")
	manifest := local(t, name, localDisk("disk1", ""), localDisk("disk2", ""))
	must(t, apply(strings.Replace(manifest, `"placement":{"perNode":true}`, `"replicas":2`, 1)))
	s.current(t)
}

// fillsAll writes more data than two disks can hold. It writes slowly enough for nginx to evict old objects from the
// small disks in time.
func fillsAll(t *testing.T, s *suite) {
	p := s.target(t, name+"-0")
	before := p.identity(t)
	big := make([]string, 400)
	for i := range big {
		big[i] = content.Path(8<<20, fmt.Sprintf("big-%d", i))
	}
	disks := []string{"disk1", "disk2"}
	load := p.load(t, big, 6, 4)
	most := map[string]int{} // MiB
	for range 9 {
		time.Sleep(5 * time.Second)
		for _, disk := range disks {
			most[disk] = max(most[disk], inCache(t, p, disk))
		}
	}
	all := count(load.end(), everything)
	t.Logf("filled: %s", all)
	if all.failed+all.cut > 0 {
		t.Errorf("%s: %v", all, all.errors)
	}
	for _, disk := range disks {
		fields := strings.Fields(inNginx(t, p.name, "df", "-m", "--output=size,avail", layout.DiskDir(disk)))
		size, free := number(t, fields[2]), number(t, fields[3])
		d := effective.Measured(v1alpha1.Disk{Size: resource.MustParse("1Gi"), Media: v1alpha1.HDD}, int64(size)<<20)
		limit := int(effective.MaxSize(d) >> 20)
		t.Logf("%s: up to %d of %d MiB in the cache, now %d, limit %d, %d free",
			disk, most[disk], size, inCache(t, p, disk), limit, free)
		// The space of a deleted file becomes free only when the last response that reads the file ends. Until minFree is
		// reached, nginx deletes more files. On a small disk, it can delete most of the cache in this way.
		if most[disk] > size-int(effective.EjectBelow(d)>>20) || most[disk] < limit*3/10 {
			t.Errorf("%s: up to %d MiB were in the cache, want a good part of the limit, %d", disk, most[disk], limit)
		}
		if state := p.state(t, disk); state != string(v1alpha1.DiskHealthy) {
			t.Errorf("%s is %s", disk, state)
		}
	}
	within(t, 30*time.Second, func() string { // nginx checks every 10 seconds
		if used := inCache(t, p, "disk1"); used > 720 {
			return fmt.Sprintf("%d MiB are in the cache of disk1", used)
		}
		return ""
	})
	if after := p.identity(t); after != before {
		t.Errorf("the pod is %s, was %s", after, before)
	}
	tooLarge := `{"name":"disk1","size":"1Gi","localPath":{"path":"/mnt/disk1"},"cache":{"maxSize":"1000Mi"}}`
	if err := edit(`{"spec":{"disks":[` + tooLarge + `,` + localDisk("disk2", "") + `]}}`); err != nil {
		t.Error(err)
	}
	message := s.says(t, v1alpha1.ConditionDegraded, v1alpha1.ReasonConfigRefused, 15*time.Second)
	if !strings.Contains(message, "spec.disks[disk1].cache.maxSize: 1000Mi is more than the file system has, which is ") {
		t.Errorf("a cache larger than its disk: %s", message)
	}
	editDisks(t, localDisk("disk1", ""), localDisk("disk2", ""))
	s.current(t)
}

// inCache returns the size of all files on a disk in MiB.
func inCache(t *testing.T, p *target, disk string) int {
	t.Helper()
	// A file that is deleted during the count is no failure.
	du := inNginx(t, p.name, "sh", "-c", "du -sm "+layout.DiskDir(disk)+" 2>/dev/null || true")
	return number(t, strings.Fields(du)[0])
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}
