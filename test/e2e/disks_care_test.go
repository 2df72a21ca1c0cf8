package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/test/client/report"
)

func drains(t *testing.T, s *suite) {
	p := s.target(t, name+"-1")
	p.warm(t, many)
	identity, before := p.identity(t), p.version(t)
	asked := s.originCount(t)
	plugin(t, "", "disk", "drain", p.name, "disk2")
	p.changes(t, before, 10*time.Second)
	within(t, 15*time.Second, func() string {
		for _, d := range p.report(t).Disks {
			if d.Name == "disk2" && d.State == "Drained" && d.Share == "0.00%" {
				return ""
			}
		}
		return fmt.Sprintf("the status says %+v", p.report(t))
	})
	for _, r := range p.get(t, many[:200]) {
		if r.Error != "" || r.Disk == "disk2" {
			t.Errorf("%s: on %s, error %q", r.Path, r.Disk, r.Error)
		}
	}
	drained := p.version(t)
	plugin(t, "", "disk", "readmit", p.name, "disk2")
	p.changes(t, drained, 10*time.Second)
	p.becomes(t, "disk2", 15*time.Second)
	own := slices.DeleteFunc(slices.Clone(many), func(path string) bool { return p.disk(path) != "disk2" })
	hits := count(p.get(t, own), everything)
	t.Logf("readmitted: %s; the origin was asked for %s objects before and %s after", hits, asked, s.originCount(t))
	if hits.hits != len(own) || hits.failed > 0 {
		t.Errorf("the files did not stay: %s", hits)
	}
	if after := p.identity(t); after != identity {
		t.Errorf("the pod is %s, was %s", after, identity)
	}
	events := kubectl(t, "", "get", "events")
	for _, want := range []string{"DiskDrained", "DiskReadmitted"} {
		if !strings.Contains(events, want) {
			t.Errorf("no event %s", want)
		}
	}
}

func replaces(t *testing.T, s *suite) {
	p := s.target(t, name+"-1")
	host, before := p.where(t), string(p.pod(t).UID)
	claim, other := s.claim(t, "disk2", p.name), s.claim(t, "disk1", p.name)
	load := s.load(t, objects[:150])
	plugin(t, "", "disk", "drain", p.name, "disk2")
	cluster(t, "fault", "swap", host, "disk2")
	plugin(t, "", "disk", "replace", p.name, "disk2")
	p.renewed(t, before, 40*time.Second)
	kubectl(t, "", "annotate", "cachenode", name, v1alpha1.Drain.Annotation(p.name, "disk2")+"-")
	s.current(t)
	checkLoad(t, load.more(t, 300).end())
	if after := s.claim(t, "disk2", p.name); after.UID == claim.UID {
		t.Error("the claim is the one of before")
	}
	if after := s.claim(t, "disk1", p.name); after.UID != other.UID || p.where(t) != host {
		t.Error("the other disk's claim, or the node, is another")
	}
	p.becomes(t, "disk2", 15*time.Second)
	results := p.get(t, many[:600])
	hits := func(disk string) tally {
		return count(results, func(r report.Result) bool { return p.disk(r.Path) == disk })
	}
	t.Logf("disk1: %s; disk2, which is new: %s", hits("disk1"), hits("disk2"))
	if h := hits("disk2"); h.hits > 0 || h.failed > 0 {
		t.Errorf("the new disk is not empty: %s", h)
	}
	if h := hits("disk1"); h.hits < h.requests {
		t.Errorf("the other disk is not warm: %s", h)
	}
}

func missesDisk(t *testing.T, s *suite) {
	p := s.target(t, name+"-2")
	p.warm(t, many)
	host := p.where(t)
	uid := string(p.pod(t).UID)
	cluster(t, "fault", "unmount", host, "disk2")
	kubectl(t, "", "delete", "pod", p.name, "--wait=false")
	begun := time.Now()
	p.renewed(t, uid, 60*time.Second)
	t.Logf("started without the disk %s after it was deleted", time.Since(begun).Round(100*time.Millisecond))
	message := s.says(t, v1alpha1.ConditionDegraded, v1alpha1.ReasonDiskMissing, 15*time.Second)
	if !strings.Contains(message, "disk2 of "+p.name+" cannot be mounted on node "+host) {
		t.Errorf("Degraded says %q", message)
	}
	results := p.get(t, many[:300])
	others := count(results, func(r report.Result) bool { return p.disk(r.Path) != "disk2" })
	if all := count(results, everything); all.failed+all.cut > 0 || others.hits < others.requests {
		t.Errorf("without the disk: %s; the other disks: %s", all, others)
	}
	s.comesBack(t, p, host)

	// In this case, the folder exists, but nothing is mounted on it. The pod starts and does not use the folder. Then the
	// operator replaces it by a pod with a placeholder. So no pod keeps the folder in use when the disk is mounted again.
	uid = string(p.pod(t).UID)
	cluster(t, "fault", "exec", host, "umount", "/mnt/disk2")
	kubectl(t, "", "delete", "pod", p.name, "--wait=false")
	p.renewed(t, uid, 40*time.Second)
	uid = string(p.pod(t).UID)
	p.becomes(t, "disk2", 15*time.Second, "NotMounted")
	p.renewed(t, uid, 60*time.Second)
	s.says(t, v1alpha1.ConditionDegraded, v1alpha1.ReasonDiskMissing, 15*time.Second)
	s.comesBack(t, p, host)
	list := cluster(t, "fault", "exec", host, "mountpoint", "/mnt/disk2")
	if !strings.Contains(list, "is a mountpoint") {
		t.Errorf("on the node: %s", list)
	}
}

// comesBack mounts a missing disk2 again, and waits until the pod uses the disk without further actions of the test.
// All objects that were on the disk must be HITs.
func (s *suite) comesBack(t *testing.T, p *target, host string) {
	t.Helper()
	uid := string(p.pod(t).UID)
	cluster(t, "fault", "mount", host, "disk2")
	begun := time.Now()
	p.renewed(t, uid, 3*time.Minute) // the kubelet retries at least every two minutes
	s.current(t)
	t.Logf("with the disk again %s after it was mounted, by itself", time.Since(begun).Round(100*time.Millisecond))
	s.checkPins(t)
	within(t, 15*time.Second, func() string {
		if reason, text := s.condition(t, v1alpha1.ConditionDegraded); reason != "" {
			return text
		}
		return ""
	})
	own := count(p.get(t, many), func(r report.Result) bool { return p.disk(r.Path) == "disk2" })
	if own.hits < own.requests {
		t.Errorf("what was on the disk is no HIT: %s", own)
	}
}

func startsBesideDead(t *testing.T, s *suite) {
	p := s.target(t, name+"-2")
	host := p.where(t)
	uid := string(p.pod(t).UID)
	cluster(t, "fault", "shutdown", host, "disk3")
	kubectl(t, "", "delete", "pod", p.name, "--wait=false")
	begun := time.Now()
	p.renewed(t, uid, 60*time.Second)
	t.Logf("started beside the dead disk %s after it was deleted", time.Since(begun).Round(100*time.Millisecond))
	s.says(t, v1alpha1.ConditionDegraded, v1alpha1.ReasonDiskMissing, 15*time.Second)
	cluster(t, "fault", "unmount", host, "disk3")
	cluster(t, "fault", "remount", host, "disk3")
	cluster(t, "fault", "mount", host, "disk3")
	uid = string(p.pod(t).UID)
	plugin(t, "", "disk", "readmit", p.name, "disk3")
	p.renewed(t, uid, 60*time.Second)
	s.current(t)
	s.checkPins(t)
}

// takesOver checks that the disks of a deleted CacheNode are wiped before the nginx of another CacheNode can read them.
func takesOver(t *testing.T, s *suite) {
	old := s.target(t, name+"-0")
	old.warm(t, many[:100])
	kubectl(t, "", "delete", "cachenode", name, "--wait")
	within(t, time.Minute, func() string {
		if left := len(s.localVolumes(t)); left > 0 {
			return fmt.Sprintf("%d volumes are left", left)
		}
		return ""
	})
	manifest := local(t, "heir", localDisk("disk1", ""), localDisk("disk2", ""), localDisk("disk3", ""))
	kubectl(t, manifest, "apply", "-f", "-")
	within(t, time.Minute, func() string {
		heir := &v1alpha1.CacheNode{}
		must(t, s.Get(context.Background(), client.ObjectKey{Name: "heir"}, heir))
		if len(heir.Status.Disks) != 3 || statusOf(heir, v1alpha1.ConditionReady) != "True" {
			return "it is not ready"
		}
		for _, d := range heir.Status.Disks {
			if d.Healthy != *heir.Spec.Replicas {
				return fmt.Sprintf("%s is healthy in %d pods", d.Name, d.Healthy)
			}
		}
		return ""
	})
	if events := kubectl(t, "", "get", "events"); !strings.Contains(events, "CacheAbandoned") {
		t.Error("no event tells that a cache was deleted")
	}
	if files := cacheFiles(t, "heir-0", "%p"); len(files) > 0 {
		t.Errorf("files of the one before: %s", files)
	}
	kubectl(t, "", "delete", "cachenode", "heir", "--wait")
}
