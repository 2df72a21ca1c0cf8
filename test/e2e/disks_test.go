package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const label = "cachenode-e2e"

// TestDisks follows the life of local disks. The operator creates the volumes, disks are added, removed and replaced,
// and nodes join, leave and are lost.
func TestDisks(t *testing.T) {
	nativeOnly(t)
	cluster(t, "recycle")
	s := newSuite(t)
	kubectl(t, "", "label", "nodes", "--all", label+"-")
	t.Cleanup(func() { _, _ = tryKubectl("", "label", "nodes", "--all", label+"-") })
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(kubectl(t, "", "get", "cachenodes,pods,pvc,pv,events", "-o", "wide"))
			t.Log(kubectl(t, "", "get", "cachenode", "-o", "jsonpath={.items[*].status}"))
		}
	})
	s.inOrder(t, []step{
		{"one pod on each node, with volumes that the operator creates", perNode},
		{"a node that joins gets a pod and volumes", nodeJoins},
		{"another CacheNode cannot have one of the paths", pathIsTaken},
		{"a disk is added under load", addsDisk},
		{"disks get other weights when the movement is acknowledged", reweighs},
		{"a disk is removed and another grows, under load", removesDisk},
		{"a disk is added while the last pod crashes", crashesInMove},
		{"a disk is drained and readmitted", drains},
		{"a disk is replaced under load", replaces},
		{"a disk is missing when its pod starts, and comes back", missesDisk},
		{"a disk is dead when its pod starts, and is readmitted", startsBesideDead},
		{"a node that leaves takes its pod and volumes along", nodeLeaves},
		{"another CacheNode gets the disks, without the caches on them", takesOver},
		{"two pods on three nodes", twoPods},
		{"all disks are filled to their limits", long(fillsAll)},
		{"two of three nodes are lost, and the operator does nothing", long(losesMost)},
		{"a node is lost, and its pod serves from another node", losesNode},
	})
	kubectl(t, "", "delete", "cachenode", name, "--wait")
	within(t, time.Minute, func() string {
		if left := len(s.localVolumes(t)); left > 0 {
			return fmt.Sprintf("%d volumes are left", left)
		}
		return ""
	})
	cluster(t, "recycle") // the other tests use the same disks with the StorageClass local-disks
}

// local returns a CacheNode with one pod on each node that has the label. The pods do not share keys, because the tests
// check the content of single pods.
func local(t *testing.T, name string, disks ...string) string {
	t.Helper()
	return fmt.Sprintf(`{"apiVersion":"cachenode.io/v1alpha1","kind":"CacheNode","metadata":{"name":%q},"spec":{
	  "placement":{"perNode":true},"routing":{"mode":"Local","handover":"0s"},
	  "pod":{"nodeSelector":{%q:"true"}},"disks":[%s],
	  "origin":{"servers":[{"service":{"name":"origin","port":80}}]},"hosts":["edge"],
	  "cache":{"valid":[{"status":[200],"for":"1h"}],"nodeHeader":true},"memoryTier":{"enabled":false},
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
	cacheNode := s.current(t)
	if *cacheNode.Spec.Replicas != 2 || !strings.Contains(scale(t), `"replicas":2`) {
		t.Errorf("%d replicas, want 2; /scale says %s", *cacheNode.Spec.Replicas, scale(t))
	}
	s.checkPins(t)
	if volumes := s.localVolumes(t); len(volumes) != 4 {
		t.Errorf("%d volumes, want 4", len(volumes))
	}
}

func pathIsTaken(t *testing.T, s *suite) {
	taken := strings.Replace(localDisk("disk6", ""), "/mnt/disk6", "/mnt/disk2", 1)
	kubectl(t, local(t, "other", localDisk("disk5", ""), taken), "apply", "-f", "-")
	const want = "spec.disks[1].localPath.path: /mnt/disk2 on node node-1 belongs to CacheNode e2e/edge"
	within(t, 10*time.Second, func() string {
		other := &v1alpha1.CacheNode{}
		must(t, s.Get(context.Background(), client.ObjectKey{Name: "other"}, other))
		text := ""
		for _, c := range other.Status.Conditions {
			if c.Type == v1alpha1.ConditionAccepted {
				text = c.Reason + " " + c.Message
			}
		}
		if strings.HasPrefix(text, v1alpha1.ReasonPathTaken) && strings.Contains(text, want) {
			return ""
		}
		return "Accepted is for " + text
	})
	if volumes := s.localVolumes(t); len(volumes) != 6 {
		t.Errorf("%d volumes, want 6: nothing is shared", len(volumes))
	}
	kubectl(t, "", "delete", "cachenode", "other", "--wait")

	// Another CacheNode on the same nodes names a folder that should be a mount point but is not.
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

// apply applies a manifest.
func apply(manifest string) error {
	_, err := tryKubectl(manifest, "apply", "-f", "-")
	return err
}
