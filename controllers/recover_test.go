package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/agentapi/agentclient"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// bind creates a pod's claim for a disk, bound to a volume, as the StatefulSet and volume controllers would.
func (o *operator) bind(pod, disk string, volume *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	o.t.Helper()
	ctx := context.Background()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: naming.Claim(disk, pod), Namespace: "default", Labels: naming.Labels("edge"),
	}}
	claim.Labels[naming.LabelDisk] = disk
	claim.Spec.StorageClassName, claim.Spec.VolumeName = new(naming.LocalClass), volume.Name
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	must(o.t, o.client.Create(ctx, claim))
	o.get(volume)
	before := volume.DeepCopy()
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: claim.Name, UID: claim.UID}
	must(o.t, o.client.Patch(ctx, volume, client.MergeFrom(before)))
	o.phase(volume, corev1.VolumeBound)
	return claim
}

func (o *operator) phase(volume *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) {
	o.t.Helper()
	o.eventually(func() string {
		o.get(volume)
		volume.Status.Phase = phase
		if err := o.client.Status().Update(context.Background(), volume); err != nil {
			return err.Error()
		}
		return ""
	})
}

// place creates a pod on a node, with two claims. The pod has been waiting for a minute.
func (o *operator) place(name, node string) *corev1.Pod {
	o.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: naming.Labels("edge")}}
	pod.Spec.NodeName, pod.Spec.Containers = node, []corev1.Container{{Name: "nginx", Image: "nginx"}}
	for _, disk := range []string{"disk1", "disk2"} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: disk, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: naming.Claim(disk, name)},
		}})
	}
	must(o.t, o.client.Create(context.Background(), pod))
	o.setStatus(pod, func() {
		pod.Status.Phase = corev1.PodPending
		pod.Status.PodIP, pod.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(o.clock.Now().Add(-time.Minute)),
		}}
	})
	return pod
}

// goes waits until an object is being deleted. Then it removes the finalizers and the object, as controllers in a real
// cluster would.
func (o *operator) goes(object client.Object) {
	o.t.Helper()
	ctx := context.Background()
	o.eventually(func() string {
		err := o.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) || (err == nil && object.GetDeletionTimestamp() != nil) {
			return ""
		}
		return fmt.Sprintf("%s is not deleted (%v)", object.GetName(), err)
	})
	if len(object.GetFinalizers()) > 0 {
		before := object.DeepCopyObject().(client.Object)
		object.SetFinalizers(nil)
		must(o.t, client.IgnoreNotFound(o.client.Patch(ctx, object, client.MergeFrom(before))))
	}
	must(o.t, client.IgnoreNotFound(o.client.Delete(ctx, object, client.GracePeriodSeconds(0))))
}

// TestMissingDisk follows a pod that cannot mount one of its disks, until the disk is back.
func TestMissingDisk(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	ctx := context.Background()
	o.join("node-1")
	o.join("node-2")
	cacheNode := o.create(strings.NewReplacer("placement: {perNode: true}",
		"replicas: 1\n  disruption: {diskLossAfter: 10s, nodeLossAfter: 10s}").Replace(localEdge))
	o.hasVolumes(4)
	volumes := o.volumes()
	real := volumes["node-1 /mnt/disk2"]
	o.bind("edge-0", "disk1", volumes["node-1 /mnt/disk1"])
	claim := o.bind("edge-0", "disk2", real)
	pod := o.place("edge-0", "node-1")
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "mount", Namespace: "default"},
		Reason:     "FailedMount", LastTimestamp: metav1.NewTime(o.clock.Now()),
	}
	event.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: pod.Name, UID: pod.UID}
	event.Message = fmt.Sprintf("MountVolume.NewMounter initialization failed for volume %q : path %q does not exist",
		real.Name, "/mnt/disk2")
	must(t, o.client.Create(ctx, event))
	o.pass(cacheNode)

	o.goes(pod)
	o.goes(claim)
	placeholder := &corev1.PersistentVolume{}
	must(t, o.client.Get(ctx, client.ObjectKey{Name: naming.Placeholder("default", claim.Name)}, placeholder))
	ref := placeholder.Spec.ClaimRef
	if placeholder.Spec.HostPath.Path != naming.PlaceholderPath || ref.Name != claim.Name || ref.UID != "" {
		t.Errorf("the placeholder is %+v", placeholder.Spec)
	}
	other := &corev1.PersistentVolumeClaim{}
	must(t, o.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "disk1-edge-0"}, other))
	if other.DeletionTimestamp != nil {
		t.Error("the claim of the other disk goes too")
	}

	o.phase(real, corev1.VolumeReleased)
	claim = o.bind("edge-0", "disk2", placeholder)
	pod = o.place("edge-0", "node-1")
	scout := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: naming.Scout("disk2", "edge-0"), Namespace: "default"}}
	o.eventually(func() string {
		if err := o.client.Get(ctx, client.ObjectKeyFromObject(scout), scout); err != nil {
			return "no scout: " + err.Error()
		}
		return ""
	})
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionDegraded, v1alpha1.ReasonDiskMissing)
	const missing = "disk2 of edge-0 cannot be mounted on node node-1, " +
		"and a placeholder is in its place until it is mounted at /mnt/disk2"
	if text := describe(cacheNode); !strings.Contains(text, missing) {
		t.Error(text)
	}
	o.writesNothing(cacheNode, 20) // while the disk is missing

	// An edit that is not accepted does not keep the operator from using the disk again.
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Disks[0].Cache.MaxSize = new(resource.MustParse("9Gi")) })
	o.becomes(cacheNode, status.FailedStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec)
	o.setStatus(scout, func() { scout.Status.Phase = corev1.PodSucceeded })
	o.goes(pod)
	o.goes(claim)
	o.goes(scout)
	o.hasEvents("DiskMissing", "DiskBack")
}

// TestLostNode checks that the claims and the pod on a lost node are deleted, and that nothing is deleted when all
// nodes are lost.
func TestLostNode(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t), func(r *CacheNodeReconciler) {
		r.Agents.Calls.Report = func(context.Context, *agentclient.Client, string) (agentapi.Report, error) {
			return agentapi.Report{}, errors.New("no agent here")
		}
	})
	ctx := context.Background()
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		o.join(node)
	}
	cacheNode := o.create(strings.Replace(localEdge, "placement: {perNode: true}", "replicas: 2", 1))
	o.hasVolumes(6)
	volumes := o.volumes()
	var claims []*corev1.PersistentVolumeClaim
	var pods []*corev1.Pod
	for i, node := range []string{"node-1", "node-2"} {
		for _, disk := range []string{"disk1", "disk2"} {
			claims = append(claims, o.bind(naming.Pod("edge", i), disk, volumes[node+" /mnt/"+disk]))
		}
		pod := o.place(naming.Pod("edge", i), node)
		o.setStatus(pod, func() {
			ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
			pod.Status.Conditions = append(pod.Status.Conditions, ready)
		})
		pods = append(pods, pod)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}
	must(t, o.client.Delete(ctx, node))
	o.goes(pods[1])
	o.goes(claims[2])
	o.goes(claims[3])
	for _, c := range claims[:2] {
		if o.get(c); c.DeletionTimestamp != nil {
			t.Errorf("%s goes too", c.Name)
		}
	}
	o.hasEvents("NodeLost")

	for _, name := range []string{"node-1", "node-3"} {
		must(t, o.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionDegraded, v1alpha1.ReasonNodeLost)
	for range 5 {
		o.pass(cacheNode)
	}
	for _, c := range claims[:2] {
		if o.get(c); c.DeletionTimestamp != nil {
			t.Errorf("all nodes are gone, and %s goes", c.Name)
		}
	}
	if o.get(pods[0]); pods[0].DeletionTimestamp != nil {
		t.Error("all nodes are gone, and the pod goes")
	}
}

// TestNoNodeMatches checks that a selector that no longer matches any node removes no pod.
func TestNoNodeMatches(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	o.join("node-1")
	o.join("node-2")
	cacheNode := o.create(localEdge)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Pod.NodeSelector = map[string]string{"cahce": "true"} })
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonNoNodeMatches)
	for range 5 {
		o.clock.Step(time.Minute)
		o.pass(cacheNode)
	}
	if o.get(cacheNode); *cacheNode.Spec.Replicas != 2 {
		t.Errorf("%d replicas, want the 2 of before", *cacheNode.Spec.Replicas)
	}
	o.hasVolumes(4)
}
