package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// TestTenants makes attacks that a tenant could make. The tenant can write CacheNodes and related objects in one
// namespace, and has no other rights.
func TestTenants(t *testing.T) {
	nativeOnly(t)
	cluster(t, "recycle")
	s := newSuite(t)
	kubectl(t, "", "label", "nodes", "--all", label+"-")
	kubectl(t, "", "label", "nodes", "node-1", label+"=true")
	t.Cleanup(func() {
		kubectl(t, "", "delete", "cachenodes", "--all", "--wait")
		_, _ = tryKubectl("", "label", "nodes", "--all", label+"-")
		within(t, time.Minute, func() string {
			if left := len(s.localVolumes(t)); left > 0 {
				return fmt.Sprintf("%d volumes are left", left)
			}
			return ""
		})
		cluster(t, "recycle")
	})
	must(t, apply(local(t, name, localDisk("disk1", ""))))
	s.current(t)
	t.Run("a claim takes no disk of another CacheNode", takesNoDisk)
	t.Run("a symbolic link on a disk is not followed", s.followsNoLink)
}

// takesNoDisk tries to create a claim that could get any free disk of the operator. The API server must refuse it.
func takesNoDisk(t *testing.T) {
	err := apply(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"thief"},"spec":{
	  "storageClassName":"cachenode-local","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	if err == nil || !strings.Contains(err.Error(), "must select the volumes of its own CacheNode") {
		t.Errorf("the claim is taken: %v", err)
	}
}

// accepted returns the condition Accepted of the current generation, or "" until the operator has reconciled it.
func (s *suite) accepted(t *testing.T) (status, message string) {
	t.Helper()
	cacheNode := s.cacheNode(t)
	c := meta.FindStatusCondition(cacheNode.Status.Conditions, v1alpha1.ConditionAccepted)
	if c == nil || c.ObservedGeneration != cacheNode.Generation {
		return "", ""
	}
	return string(c.Status), c.Reason + ": " + c.Message
}

// refuses waits until the current generation of the CacheNode is not accepted, with words in the reason or message.
func (s *suite) refuses(t *testing.T, words string) {
	t.Helper()
	within(t, 15*time.Second, func() string {
		if status, message := s.accepted(t); status != "False" || !strings.Contains(message, words) {
			return fmt.Sprintf("Accepted is %s (%s), want False with %q", status, message, words)
		}
		return ""
	})
}

// followsNoLink creates, on a disk, a symbolic link to a folder that belongs to root, as a tenant can do. Then it
// requests a disk at the path of this link. If the operator accepted this, the kubelet would follow the link, mount the
// folder, and give it to the pod's group.
func (s *suite) followsNoLink(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "of-root")
	must(t, os.MkdirAll(folder, 0o700))
	file := filepath.Join(folder, "key")
	must(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	inNginx(t, name+"-0", "ln", "-s", folder, layout.DiskDir("disk1")+"/evil")
	evil := `{"name":"disk2","size":"1Gi","localPath":{"path":"/mnt/disk1/evil","requireMountPoint":false},` +
		`"health":{"device":"Shared"}}`
	before := uids(s.cachePods(t))
	editDisks(t, evil)

	isUntouched := func() {
		t.Helper()
		info, err := os.Stat(file)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			script := "id; ls -ln " + layout.DiskDir("disk2") + "; cat " + layout.DiskDir("disk2") + "/key"
			out, _ := tryKubectl("", "exec", name+"-0", "-c", layout.Container, "--", "sh", "-c", script)
			t.Fatalf("the file of root has mode %o; in the pod:\n%s", info.Mode().Perm(), out)
		}
	}
	within(t, 30*time.Second, func() string {
		isUntouched()
		switch status, message := s.accepted(t); {
		case status != "False":
			return "the spec is accepted"
		case !strings.Contains(message, "/mnt/disk1/evil must be a folder directly in /mnt"):
			t.Fatalf("it is refused with %q", message)
		}
		return ""
	})
	s.passesAgain(t)
	isUntouched()
	s.refuses(t, "spec.disks[0].localPath.path")
	if _, ok := s.localVolumes(t)["node-1 /mnt/disk1/evil"]; ok {
		t.Error("there is a volume at the link")
	}
	if after := uids(s.cachePods(t)); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the pods were %v and are %v", before, after)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("in the folder of root there are %v (%v)", entries, err)
	}
	editDisks(t, localDisk("disk1", ""))
	s.current(t)
	inNginx(t, name+"-0", "rm", layout.DiskDir("disk1")+"/evil")
}
