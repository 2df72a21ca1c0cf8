package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/shard"
)

// moves edits the disks under load, and compares the result with the output of the plugin's verb plan for the manifest.
// No request may fail. Keys that should not move must be HITs, and keys that should move must be on their new disks.
func moves(t *testing.T, s *suite, change func(), manifest string) {
	t.Helper()
	p := s.target(t, name+"-0")
	p.warm(t, many)
	before := s.tree(t)
	wanted := s.cacheNode(t).DeepCopy()
	said := plugin(t, manifest, "plan", "-f", "-")
	t.Log(said)
	was := wanted.Spec.Disks
	load := s.load(t, objects[:150])
	begun := time.Now()
	change()
	s.current(t)
	took := time.Since(begun)
	checkLoad(t, load.more(t, 300).end())
	after := s.tree(t)
	is := s.cacheNode(t).Spec.Disks
	m := shard.Between(shard.NewPlan(effective.ShardDisks(was)), shard.NewPlan(effective.ShardDisks(is)))
	keys := regexp.MustCompile(`Keys: ([0-9.]+)% of them move \(any plan must move ([0-9.]+)%`)
	if match := keys.FindStringSubmatch(said); match == nil {
		t.Errorf("the plan says %s", said)
	} else if percent, err := strconv.ParseFloat(match[1], 64); err != nil || int(percent*100+0.5) != m.Slots {
		t.Errorf("the plan says %s%%, and %d hundredths of a percent moved", match[1], m.Slots)
	}
	if float64(m.Slots) > 1.15*float64(m.Least) {
		t.Errorf("%d hundredths of a percent move, and any plan must move %d", m.Slots, m.Least)
	}
	moved, hits := 0, 0
	for _, r := range p.get(t, many) {
		from, to := before.Owner(key(r.Path)), after.Owner(key(r.Path))
		switch {
		case r.Error != "" || r.Disk != to:
			t.Errorf("%s: is on %s, want %s (error %q)", r.Path, r.Disk, to, r.Error)
		case from != to:
			moved++
		case agentapi.IsHit(r.Cache): // an object that an earlier edit has moved may be renewed
			hits++
		}
	}
	stayed := len(many) - moved
	t.Logf("took %s; %d of %d objects moved (%.1f%%, planned %.1f%%), of the others %d of %d are HITs",
		took.Round(100*time.Millisecond), moved, len(many), 100*float64(moved)/float64(len(many)),
		float64(m.Slots)/100, hits, stayed)
	if hits < stayed {
		t.Errorf("%d of %d objects that should not have moved are no HITs", stayed-hits, stayed)
	}
	share := float64(moved) / float64(len(many)) * 10000
	if share < 0.8*float64(m.Slots)-100 || share > 1.2*float64(m.Slots)+100 {
		t.Errorf("%.0f hundredths of a percent of the objects moved, planned %d", share, m.Slots)
	}
}

func addsDisk(t *testing.T, s *suite) {
	disks := []string{localDisk("disk1", ""), localDisk("disk2", ""), localDisk("disk3", "")}
	moves(t, s, func() { editDisks(t, disks...) }, local(t, name, disks...))
	s.checkPins(t)
	if events := kubectl(t, "", "get", "events"); !strings.Contains(events, "KeyMovement") {
		t.Error("no event tells of the movement")
	}
}

func reweighs(t *testing.T, s *suite) {
	disks := []string{
		localDisk("disk1", `,"weight":100`),
		localDisk("disk2", `,"weight":100`),
		localDisk("disk3", `,"weight":50`),
	}
	moves(t, s, func() {
		must(t, edit(fmt.Sprintf(`{"spec":{"disks":[%s],"rollout":{"maxKeyMovement":5}}}`, strings.Join(disks, ","))))
		revision := s.cacheNode(t).Status.Pods[0].Revision
		message := s.says(t, v1alpha1.ConditionProgressing, v1alpha1.ReasonKeyMovement, 10*time.Second)
		movement := s.cacheNode(t).Status.KeyMovement
		if movement == nil || !strings.Contains(message, v1alpha1.AnnotationAcknowledged+"="+movement.Name) {
			t.Fatalf("the movement is %+v, the message %q", movement, message)
		}
		s.asksOnly(t, revision) // until the movement is acknowledged
		kubectl(t, "", "annotate", "cachenode", name, v1alpha1.AnnotationAcknowledged+"="+movement.Name)
	}, local(t, name, disks...))
	must(t, edit(`{"spec":{"rollout":{"maxKeyMovement":null}}}`))
}

func removesDisk(t *testing.T, s *suite) {
	disks := []string{localDisk("disk1", `,"weight":100`), grownDisk()}
	moves(t, s, func() { editDisks(t, disks...) }, local(t, name, disks...))
	within(t, 30*time.Second, func() string {
		if n := len(s.localVolumes(t)); n != 6 {
			return fmt.Sprintf("%d volumes, want 6: those of the disk are gone", n)
		}
		return ""
	})
	if claims := kubectl(t, "", "get", "pvc", "-o", "name"); strings.Contains(claims, "disk3") {
		t.Errorf("a claim of the disk is left: %s", claims)
	}
	// The spec asks for 9 GiB, and there are six file systems of nearly 1 GiB.
	within(t, 30*time.Second, func() string {
		size, err := resource.ParseQuantity(s.cacheNode(t).Status.Size)
		if err != nil || size.Value() < 5<<30 || size.Value() > 6<<30 {
			return fmt.Sprintf("the size is %s, want nearly 6Gi", size.String())
		}
		return ""
	})
	for place, v := range s.localVolumes(t) {
		want := map[bool]string{true: "2Gi", false: "1Gi"}[strings.HasSuffix(place, "/mnt/disk2")]
		if v.Spec.Capacity.Storage().String() != want {
			t.Errorf("%s has a capacity of %s, want %s", place, v.Spec.Capacity.Storage(), want)
		}
	}
}

// grownDisk returns disk2 with 2 GiB instead of 1 GiB.
func grownDisk() string {
	return strings.Replace(localDisk("disk2", `,"weight":100`), `"1Gi"`, `"2Gi"`, 1)
}

// crashesInMove deletes the last pod while a disk is added. In this situation, the StatefulSet controller cannot create
// a pod as long as a pod with a lower ordinal lacks a volume of its template.
func crashesInMove(t *testing.T, s *suite) {
	last := s.target(t, name+"-2")
	before := string(last.pod(t).UID)
	editDisks(t, localDisk("disk1", `,"weight":100`), grownDisk(), localDisk("disk3", `,"weight":100`))
	first := s.target(t, name+"-0")
	within(t, 30*time.Second, func() string {
		pod := &corev1.Pod{}
		err := s.Get(context.Background(), client.ObjectKey{Name: first.name}, pod)
		if apierrors.IsNotFound(err) || pod.DeletionTimestamp != nil {
			return ""
		}
		return "the first pod is not replaced"
	})
	begun := time.Now()
	kubectl(t, "", "delete", "pod", last.name, "--grace-period=1", "--wait=false")
	last.renewed(t, before, 60*time.Second)
	took := time.Since(begun).Round(100 * time.Millisecond)
	t.Logf("the last pod crashed in the middle of the move and was ready again after %s", took)
	s.current(t)
	s.checkPins(t)
}
