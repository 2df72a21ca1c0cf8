package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/movement"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/tuning"
	"github.com/cachenode/cachenode-operator/test/client/report"
	"github.com/cachenode/cachenode-operator/test/content"
)

const label = "cachenode-e2e"

// TestDisks follows the life of local disks: the operator makes the volumes, disks come, go and are exchanged, nodes come
// and are lost.
func TestDisks(t *testing.T) {
	if cluster(t, "kind") != "native" {
		t.Skip("disks and nodes are taken away on the native cluster only: CLUSTER=native test/e2e/run")
	}
	cluster(t, "recycle")
	s := newSuite(t)
	kubectl(t, "", "label", "nodes", "--all", label+"-")
	t.Cleanup(func() { _, _ = tryKubectl("", "label", "nodes", "--all", label+"-") })
	for _, step := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"one pod on each node, and the operator makes its volumes", perNode},
		{"a node joins", nodeJoins},
		{"another CacheNode wants one of the paths", pathIsTaken},
		{"a disk is added under load", addsDisk},
		{"disks get other weights, once that is acknowledged", reweighs},
		{"a disk is removed and another grows, under load", removesDisk},
		{"the last pod crashes while a disk comes", crashesInMove},
		{"a disk is drained and readmitted", drains},
		{"a disk is replaced", replaces},
		{"a disk is missing at the start, and comes back", missesDisk},
		{"a disk is dead at the start, and is readmitted", startsBesideDead},
		{"a node leaves", nodeLeaves},
		{"another CacheNode gets the disks, and nothing of what was on them", takesOver},
		{"all disks are filled to their limits", fillsAll},
		{"two of three nodes are lost: nothing is done", losesMost},
		{"a node is lost: its pod serves from another", losesNode},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, s) }) {
			t.Log(kubectl(t, "", "get", "cachenodes,pods,pvc,pv,events", "-o", "wide"))
			t.Log(kubectl(t, "", "get", "cachenode", "-o", "jsonpath={.items[*].status}"))
			t.FailNow() // the steps build on each other
		}
	}
	kubectl(t, "", "delete", "cachenode", name, "--wait")
	within(t, time.Minute, func() string {
		if left := len(s.localVolumes(t)); left > 0 {
			return fmt.Sprintf("%d volumes are left", left)
		}
		return ""
	})
}

// local is a CacheNode on the nodes with the label.
func local(t *testing.T, name string, disks ...string) string {
	t.Helper()
	return fmt.Sprintf(`{"apiVersion":"cachenode.io/v1alpha1","kind":"CacheNode","metadata":{"name":%q},"spec":{
	  "placement":{"perNode":true},"pod":{"nodeSelector":{%q:"true"}},"disks":[%s],
	  "origin":{"servers":[{"service":{"name":"origin","port":80}}]},"hosts":["edge"],
	  "cache":{"valid":[{"status":[200],"for":"1h"}]},
	  "rollout":{"workerShutdownTimeout":"10s"},"disruption":{"diskLossAfter":"10s","nodeLossAfter":"10s"}}}`,
		name, label, strings.Join(disks, ","))
}

func editDisks(t *testing.T, disks ...string) {
	t.Helper()
	must(t, edit(fmt.Sprintf(`{"spec":{"disks":[%s]}}`, strings.Join(disks, ","))))
}

func perNode(t *testing.T, s *suite) {
	kubectl(t, "", "label", "nodes", "node-1", "node-2", label+"=true")
	must(t, apply(local(t, name, localDisk("disk1", ""), localDisk("disk2", ""))))
	node := s.current(t)
	if *node.Spec.Replicas != 2 || !strings.Contains(scale(t), `"replicas":2`) {
		t.Errorf("%d replicas, want 2; /scale says %s", *node.Spec.Replicas, scale(t))
	}
	s.checkPins(t)
	if volumes := s.localVolumes(t); len(volumes) != 4 {
		t.Errorf("%d volumes, want 4", len(volumes))
	}
}

func nodeJoins(t *testing.T, s *suite) {
	begun := time.Now()
	kubectl(t, "", "label", "nodes", "node-3", label+"=true")
	within(t, 10*time.Second, func() string {
		if n := *s.node(t).Spec.Replicas; n != 3 {
			return fmt.Sprintf("%d replicas", n)
		}
		return ""
	})
	s.current(t)
	t.Logf("the node's pod is ready %s after it joined", time.Since(begun).Round(100*time.Millisecond))
	s.checkPins(t)
	if volumes := s.localVolumes(t); len(volumes) != 6 {
		t.Errorf("%d volumes, want 6", len(volumes))
	}
}

func pathIsTaken(t *testing.T, s *suite) {
	kubectl(t, local(t, "other", localDisk("disk5", ""), strings.Replace(localDisk("disk6", ""), "/mnt/disk6", "/mnt/disk2", 1)), "apply", "-f", "-")
	within(t, 10*time.Second, func() string {
		other := &v1alpha1.CacheNode{}
		must(t, s.Get(context.Background(), client.ObjectKey{Name: "other"}, other))
		text := ""
		for _, c := range other.Status.Conditions {
			if c.Type == v1alpha1.ConditionAccepted {
				text = c.Reason + " " + c.Message
			}
		}
		if strings.HasPrefix(text, v1alpha1.ReasonPathTaken) && strings.Contains(text, "spec.disks[1].localPath.path: /mnt/disk2 on node node-1 belongs to CacheNode e2e/edge") {
			return ""
		}
		return "Accepted is for " + text
	})
	if volumes := s.localVolumes(t); len(volumes) != 6 {
		t.Errorf("%d volumes, want 6: nothing is shared", len(volumes))
	}
	kubectl(t, "", "delete", "cachenode", "other", "--wait")

	// A folder where a mount should be, on the same nodes beside the first.
	for _, host := range []string{"node-1", "node-2", "node-3"} {
		cluster(t, "fault", "exec", host, "mkdir", "-p", "/mnt/folder")
	}
	must(t, apply(local(t, "other", strings.Replace(localDisk("disk5", ""), "/mnt/disk5", "/mnt/folder", 1))))
	within(t, 40*time.Second, func() string {
		other := &v1alpha1.CacheNode{}
		must(t, s.Get(context.Background(), client.ObjectKey{Name: "other"}, other))
		for _, p := range other.Status.Pods {
			for _, d := range p.Disks {
				if d.State == "Failed" && d.Reason == "NotMounted" && strings.Contains(d.Message, "requireMountPoint") {
					return ""
				}
			}
		}
		return fmt.Sprintf("the folder is used: %+v", other.Status.Pods)
	})
	kubectl(t, "", "delete", "cachenode", "other", "--wait")
	within(t, time.Minute, func() string {
		if n := len(s.localVolumes(t)); n != 6 {
			return fmt.Sprintf("%d volumes, want 6", n)
		}
		return ""
	})
}

// moves makes an edit of the disks under load and holds what happens to what the plugin's plan said: no failed request, the
// keys that should not move are HITs, and those that should are on their new disks.
func moves(t *testing.T, s *suite, change func(), manifest string, load time.Duration) {
	t.Helper()
	p := s.target(t, name+"-0")
	p.warm(t, many)
	before := s.tree(t)
	wanted := s.node(t).DeepCopy()
	said := plugin(t, manifest, "plan", "-f", "-")
	t.Log(said)
	was := wanted.Spec.Disks
	wait := s.load(t, objects[:150], load)
	time.Sleep(2 * time.Second)
	begun := time.Now()
	change()
	s.current(t)
	took := time.Since(begun)
	if took > load-3*time.Second {
		t.Errorf("it took %s, longer than the load", took)
	}
	checkLoad(t, wait(), int(load.Seconds())*100)
	after := s.tree(t)
	m := movement.Between(was, s.node(t).Spec.Disks)
	if match := regexp.MustCompile(`Keys: ([0-9.]+)% of them move \(any plan must move ([0-9.]+)%`).FindStringSubmatch(said); match == nil {
		t.Errorf("the plan says %s", said)
	} else if percent, err := strconv.ParseFloat(match[1], 64); err != nil || int(percent*100+0.5) != m.Slots {
		t.Errorf("the plan says %s%%, and %d hundredths of a percent moved", match[1], m.Slots)
	}
	if float64(m.Slots) > 1.15*float64(m.Least) {
		t.Errorf("%d hundredths of a percent move, and any plan must move %d", m.Slots, m.Least)
	}
	moved, hits := 0, 0
	for _, r := range p.run(t, "fetch", many, "-keepalive")() {
		from, to := before.Disk(key(r.Path)), after.Disk(key(r.Path))
		switch {
		case r.Error != "" || r.Disk != to:
			t.Errorf("%s: is on %s, want %s (error %q)", r.Path, r.Disk, to, r.Error)
		case from != to:
			moved++
		case r.Cache == "HIT":
			hits++
		}
	}
	stayed := len(many) - moved
	t.Logf("took %s; %d of %d objects moved (%.1f%%, planned %.1f%%), of the others %d of %d are HITs",
		took.Round(100*time.Millisecond), moved, len(many), 100*float64(moved)/float64(len(many)), float64(m.Slots)/100, hits, stayed)
	if hits < stayed {
		t.Errorf("%d of %d objects that should not have moved are no HITs", stayed-hits, stayed)
	}
	if share := float64(moved) / float64(len(many)) * 10000; share < 0.8*float64(m.Slots)-100 || share > 1.2*float64(m.Slots)+100 {
		t.Errorf("%.0f hundredths of a percent of the objects moved, planned %d", share, m.Slots)
	}
}

func addsDisk(t *testing.T, s *suite) {
	disks := []string{localDisk("disk1", ""), localDisk("disk2", ""), localDisk("disk3", "")}
	moves(t, s, func() { editDisks(t, disks...) }, local(t, name, disks...), 50*time.Second)
	s.checkPins(t)
	if events := kubectl(t, "", "get", "events"); !strings.Contains(events, "KeyMovement") {
		t.Error("no event tells of the movement")
	}
}

func reweighs(t *testing.T, s *suite) {
	disks := []string{localDisk("disk1", `,"weight":100`), localDisk("disk2", `,"weight":100`), localDisk("disk3", `,"weight":50`)}
	moves(t, s, func() {
		must(t, edit(fmt.Sprintf(`{"spec":{"disks":[%s],"rollout":{"maxKeyMovement":5}}}`, strings.Join(disks, ","))))
		revision := s.node(t).Status.Pods[0].Revision
		message := s.says(t, v1alpha1.ConditionProgressing, v1alpha1.ReasonKeyMovement, 10*time.Second)
		node := s.node(t)
		if node.Status.KeyMovement == nil || !strings.Contains(message, naming.AnnotationAcknowledged+"="+node.Status.KeyMovement.Name) {
			t.Fatalf("the movement is %+v, the message %q", node.Status.KeyMovement, message)
		}
		time.Sleep(3 * time.Second) // nothing happens
		for _, pod := range s.node(t).Status.Pods {
			if pod.Revision != revision {
				t.Errorf("%s has taken %s without an acknowledgement", pod.Name, pod.Revision)
			}
		}
		kubectl(t, "", "annotate", "cachenode", name, naming.AnnotationAcknowledged+"="+node.Status.KeyMovement.Name)
	}, local(t, name, disks...), 20*time.Second)
	must(t, edit(`{"spec":{"rollout":{"maxKeyMovement":null}}}`))
}

func removesDisk(t *testing.T, s *suite) {
	disks := []string{localDisk("disk1", `,"weight":100`), grownDisk()}
	moves(t, s, func() { editDisks(t, disks...) }, local(t, name, disks...), 50*time.Second)
	within(t, 30*time.Second, func() string {
		if n := len(s.localVolumes(t)); n != 6 {
			return fmt.Sprintf("%d volumes, want 6: those of the disk are gone", n)
		}
		return ""
	})
	if claims := kubectl(t, "", "get", "pvc", "-o", "name"); strings.Contains(claims, "disk3") {
		t.Errorf("a claim of the disk is left: %s", claims)
	}
	if got := s.node(t).Status.Size; got != "9Gi" {
		t.Errorf("the size is %s, want 9Gi", got)
	}
	for place, v := range s.localVolumes(t) {
		if want := map[bool]string{true: "2Gi", false: "1Gi"}[strings.HasSuffix(place, "/mnt/disk2")]; v.Spec.Capacity.Storage().String() != want {
			t.Errorf("%s has a capacity of %s, want %s", place, v.Spec.Capacity.Storage(), want)
		}
	}
}

// grownDisk is the second disk with twice its size.
func grownDisk() string {
	return strings.Replace(localDisk("disk2", `,"weight":100`), `"1Gi"`, `"2Gi"`, 1)
}

// crashesInMove: the StatefulSet cannot make a pod of a higher ordinal while one of a lower lacks a volume of its template.
func crashesInMove(t *testing.T, s *suite) {
	last := s.target(t, name+"-2")
	before := string(last.pod(t).UID)
	editDisks(t, localDisk("disk1", `,"weight":100`), grownDisk(), localDisk("disk3", `,"weight":100`))
	first := s.target(t, name+"-0")
	within(t, 30*time.Second, func() string {
		pod := &corev1.Pod{}
		if err := s.Get(context.Background(), client.ObjectKey{Name: first.name}, pod); apierrors.IsNotFound(err) || pod.DeletionTimestamp != nil {
			return ""
		}
		return "the first pod is not made anew"
	})
	begun := time.Now()
	kubectl(t, "", "delete", "pod", last.name, "--grace-period=1", "--wait=false")
	last.renewed(t, before, 60*time.Second)
	t.Logf("the last pod crashed in the middle of the move and was ready again after %s", time.Since(begun).Round(100*time.Millisecond))
	s.current(t)
	s.checkPins(t)
}

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
	for _, r := range p.run(t, "fetch", many[:200], "-keepalive")() {
		if r.Error != "" || r.Disk == "disk2" {
			t.Errorf("%s: on %s, error %q", r.Path, r.Disk, r.Error)
		}
	}
	drained := p.version(t)
	plugin(t, "", "disk", "readmit", p.name, "disk2")
	p.changes(t, drained, 10*time.Second)
	p.becomes(t, "disk2", 15*time.Second)
	own := slices.DeleteFunc(slices.Clone(many), func(path string) bool { return p.disk(path) != "disk2" })
	hits := count(p.run(t, "fetch", own, "-keepalive")(), everything)
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
	wait := s.load(t, objects[:150], 25*time.Second)
	time.Sleep(time.Second)
	plugin(t, "", "disk", "drain", p.name, "disk2")
	cluster(t, "fault", "swap", host, "disk2")
	time.Sleep(1100 * time.Millisecond) // Kubernetes' times are whole seconds
	plugin(t, "", "disk", "replace", p.name, "disk2")
	p.renewed(t, before, 40*time.Second)
	kubectl(t, "", "annotate", "cachenode", name, naming.Drain.Annotation(p.name, "disk2")+"-")
	s.current(t)
	checkLoad(t, wait(), 2000)
	if after := s.claim(t, "disk2", p.name); after.UID == claim.UID {
		t.Error("the claim is the one of before")
	}
	if after := s.claim(t, "disk1", p.name); after.UID != other.UID || p.where(t) != host {
		t.Error("the other disk's claim, or the node, is another")
	}
	p.becomes(t, "disk2", 15*time.Second)
	results := p.run(t, "fetch", many[:600], "-keepalive")()
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
	results := p.run(t, "fetch", many[:300], "-keepalive")()
	others := count(results, func(r report.Result) bool { return p.disk(r.Path) != "disk2" })
	if all := count(results, everything); all.failed+all.cut > 0 || others.hits < others.requests {
		t.Errorf("without the disk: %s; the other disks: %s", all, others)
	}
	uid = string(p.pod(t).UID)
	cluster(t, "fault", "mount", host, "disk2")
	begun = time.Now()
	p.renewed(t, uid, 3*time.Minute) // the kubelet tries again every two minutes at the latest
	s.current(t)
	t.Logf("with the disk again %s after it was mounted, by itself", time.Since(begun).Round(100*time.Millisecond))
	s.checkPins(t)
	within(t, 15*time.Second, func() string {
		if reason, text := s.condition(t, v1alpha1.ConditionDegraded); reason != "" {
			return text
		}
		return ""
	})
	own := count(p.run(t, "fetch", many, "-keepalive")(), func(r report.Result) bool { return p.disk(r.Path) == "disk2" })
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

func nodeLeaves(t *testing.T, s *suite) {
	host := s.target(t, name+"-0").where(t) // not that of the highest ordinal, which a StatefulSet removes
	kubectl(t, "", "label", "nodes", host, label+"-")
	within(t, 90*time.Second, func() string {
		pods := s.cachePods(t)
		for _, p := range pods {
			if p.Spec.NodeName == host {
				return p.Name + " is still on " + host
			}
		}
		for place := range s.localVolumes(t) {
			if strings.HasPrefix(place, host+" ") {
				return "there is still a volume for " + place
			}
		}
		if len(pods) != 2 {
			return fmt.Sprintf("%d pods", len(pods))
		}
		return ""
	})
	s.current(t)
	s.checkPins(t)
}

// takesOver: volumes of a CacheNode that is gone are wiped before another's nginx sees them.
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
	kubectl(t, local(t, "heir", localDisk("disk1", ""), localDisk("disk2", ""), localDisk("disk3", "")), "apply", "-f", "-")
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
	files := kubectl(t, "", "exec", "heir-0", "-c", naming.Container, "--", "find", "/var/cache/cachenode", "-type", "f", "-path", "*/cachenode/cache/*")
	if files != "" {
		t.Errorf("files of the one before: %s", files)
	}
	kubectl(t, "", "delete", "cachenode", "heir", "--wait")
}

// fillsAll writes more than two disks can hold, as fast as small disks allow nginx to evict.
func fillsAll(t *testing.T, s *suite) {
	kubectl(t, "", "label", "nodes", "--all", "--overwrite", label+"=true")
	must(t, apply(strings.Replace(local(t, name, localDisk("disk1", ""), localDisk("disk2", "")), `"placement":{"perNode":true}`, `"replicas":2`, 1)))
	s.current(t)
	p := s.target(t, name+"-0")
	before := p.identity(t)
	big := make([]string, 400)
	for i := range big {
		big[i] = content.Path(8<<20, fmt.Sprintf("big-%d", i))
	}
	results := p.load(t, big, 45*time.Second, 6, 4)()
	all := count(results, everything)
	t.Logf("filled: %s", all)
	if all.failed+all.cut > 0 || all.requests < 200 {
		t.Errorf("%s: %v", all, all.errors)
	}
	for _, disk := range []string{"disk1", "disk2"} {
		dir := naming.DiskDir(disk)
		fields := strings.Fields(kubectl(t, "", "exec", p.name, "-c", naming.Container, "--", "df", "-m", "--output=size,avail", dir))
		du := strings.Fields(kubectl(t, "", "exec", p.name, "-c", naming.Container, "--", "du", "-sm", dir))
		size, free, used := number(t, fields[2]), number(t, fields[3]), number(t, du[0])
		d := tuning.Measured(v1alpha1.Disk{Size: resource.MustParse("1Gi"), Media: v1alpha1.HDD}, int64(size)<<20)
		limit := int(tuning.MaxSize(d) >> 20)
		t.Logf("%s: %d of %d MiB in the cache, limit %d, %d free", disk, used, size, limit, free)
		if used > size-int(tuning.EjectBelow(d)>>20) || used < limit*8/10 {
			t.Errorf("%s: %d MiB are in the cache, want about the limit, %d", disk, used, limit)
		}
		if reason := p.reason(t, disk); reason != "" {
			t.Errorf("%s is out of use: %s", disk, reason)
		}
	}
	within(t, 30*time.Second, func() string { // nginx looks every 10 seconds
		du := strings.Fields(kubectl(t, "", "exec", p.name, "-c", naming.Container, "--", "du", "-sm", naming.DiskDir("disk1")))
		if used := number(t, du[0]); used > 720 {
			return fmt.Sprintf("%d MiB are in the cache of disk1", used)
		}
		return ""
	})
	if after := p.identity(t); after != before {
		t.Errorf("the pod is %s, was %s", after, before)
	}
	if err := edit(`{"spec":{"disks":[{"name":"disk1","size":"1Gi","localPath":{"path":"/mnt/disk1"},"cache":{"maxSize":"1000Mi"}},` + localDisk("disk2", "") + `]}}`); err != nil {
		t.Error(err)
	}
	message := s.says(t, v1alpha1.ConditionDegraded, v1alpha1.ReasonConfigRefused, 15*time.Second)
	if !strings.Contains(message, "spec.disks[disk1].cache.maxSize: 1000Mi is more than the file system has, which is ") {
		t.Errorf("a cache larger than its disk: %s", message)
	}
	editDisks(t, localDisk("disk1", ""), localDisk("disk2", ""))
	s.current(t)
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// apply applies a manifest.
func apply(manifest string) error {
	_, err := tryKubectl(manifest, "apply", "-f", "-")
	return err
}

// losesMost stops two of three nodes: to the operator it must look as if it were the one that is cut off.
func losesMost(t *testing.T, s *suite) {
	pods := s.cachePods(t)
	var hosts []string
	for _, p := range pods {
		hosts = append(hosts, p.Spec.NodeName)
	}
	s.clear(t, hosts...)
	claims := kubectl(t, "", "get", "pvc", "-o", "jsonpath={.items[*].metadata.uid}")
	for _, host := range hosts {
		cluster(t, "fault", "stop", host)
	}
	message := s.says(t, v1alpha1.ConditionDegraded, v1alpha1.ReasonNodeLost, 90*time.Second)
	t.Log(message)
	if !strings.Contains(message, "2 of 3 nodes are out of service, more than half") {
		t.Errorf("Degraded says %q", message)
	}
	time.Sleep(5 * time.Second) // nothing happens
	if after := kubectl(t, "", "get", "pvc", "-o", "jsonpath={.items[*].metadata.uid}"); after != claims {
		t.Errorf("the claims are %s, were %s", after, claims)
	}
	for i, p := range s.cachePods(t) {
		if p.UID != pods[i].UID || p.DeletionTimestamp != nil {
			t.Errorf("%s was touched", p.Name)
		}
	}
	for _, host := range hosts {
		cluster(t, "fault", "start", host)
	}
	s.settles(t, hosts)
}

// losesNode stops the node of one of two pods, with a third node free.
func losesNode(t *testing.T, s *suite) {
	p := s.target(t, name+"-1")
	host, before := p.where(t), string(p.pod(t).UID)
	s.clear(t, host)
	cluster(t, "fault", "stop", host)
	begun := time.Now()
	p.renewed(t, before, 2*time.Minute)
	took := time.Since(begun)
	t.Logf("%s was lost with its pod; the pod serves from %s after %s, of which Kubernetes takes 10 s to notice and nodeLossAfter is 10 s", host, p.where(t), took.Round(100*time.Millisecond))
	if took > 60*time.Second || p.where(t) == host {
		t.Errorf("it took %s, and the pod is on %s", took, p.where(t))
	}
	s.checkPins(t)
	if results := count(p.run(t, "fetch", many[:100], "-keepalive")(), everything); results.failed+results.cut > 0 {
		t.Errorf("from the other node: %s: %v", results, results.errors)
	}
	if events := kubectl(t, "", "get", "events"); !strings.Contains(events, "node "+host+" is lost") {
		t.Error("no event tells of the loss")
	}
	cluster(t, "fault", "start", host)
	s.settles(t, []string{host})
	within(t, 30*time.Second, func() string { // its disks can be had again
		for place, v := range s.localVolumes(t) {
			if strings.HasPrefix(place, host+" ") && v.Status.Phase != corev1.VolumeAvailable {
				return place + " is " + string(v.Status.Phase)
			}
		}
		return ""
	})
}

// clear moves everything but the caches away from nodes.
func (s *suite) clear(t *testing.T, hosts ...string) {
	t.Helper()
	for _, host := range hosts {
		kubectl(t, "", "cordon", host)
		for namespace, selector := range map[string]string{"cachenode-system": "app.kubernetes.io/name=cachenode-operator", "kube-system": "k8s-app=kube-dns", "e2e": "app=origin"} {
			kubectl(t, "", "-n", namespace, "delete", "pod", "-l", selector, "--field-selector", "spec.nodeName="+host)
		}
	}
	kubectl(t, "", "-n", "cachenode-system", "rollout", "status", "deployment/cachenode-operator", "--timeout=1m")
	kubectl(t, "", "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=1m")
	kubectl(t, "", "rollout", "status", "deployment/origin", "--timeout=1m")
	for _, host := range hosts {
		kubectl(t, "", "uncordon", host)
	}
	s.current(t)
}

// settles waits until nodes and caches are as before.
func (s *suite) settles(t *testing.T, hosts []string) {
	t.Helper()
	for _, host := range hosts {
		kubectl(t, "", "wait", "node/"+host, "--for=condition=Ready", "--timeout=1m")
	}
	kubectl(t, "", "rollout", "status", "daemonset/client", "--timeout=1m")
	s.current(t)
}
