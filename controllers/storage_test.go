package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/steps"
)

const localEdge = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  placement: {perNode: true}
  disks: [{name: disk1, size: 1Gi, localPath: {path: /mnt/disk1}}, ` +
	`{name: disk2, size: 1Gi, localPath: {path: /mnt/disk2}}]
  origin: {servers: [{service: {name: origin, port: 80}}]}
`

// join adds a node to the cluster.
func (o *operator) join(name string) {
	o.t.Helper()
	labels := map[string]string{corev1.LabelHostname: "host-of-" + name}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	must(o.t, o.client.Create(context.Background(), node))
}

// volumes returns the volumes that the operator has created, by node and path.
func (o *operator) volumes() map[string]*corev1.PersistentVolume {
	o.t.Helper()
	list := &corev1.PersistentVolumeList{}
	must(o.t, o.client.List(context.Background(), list))
	volumes := map[string]*corev1.PersistentVolume{}
	for i := range list.Items {
		v := &list.Items[i]
		if v.DeletionTimestamp.IsZero() { // in these tests, no controller removes the finalizer that protects a volume
			volumes[v.Annotations[naming.AnnotationNode]+" "+v.Annotations[naming.AnnotationPath]] = v
		}
	}
	return volumes
}

func (o *operator) hasVolumes(want int) {
	o.t.Helper()
	o.eventually(func() string {
		if got := o.volumes(); len(got) != want {
			return fmt.Sprintf("there are %d volumes, want %d: %v", len(got), want, got)
		}
		return ""
	})
}

func TestLocalVolumes(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	ctx := context.Background()
	o.join("node-1")
	o.join("node-2")
	cacheNode := o.create(localEdge)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)

	steps.Run(t, "one a disk on each node, tied to it", func() {
		o.hasVolumes(4)
		v := o.volumes()["node-2 /mnt/disk1"]
		terms := v.Spec.NodeAffinity.Required.NodeSelectorTerms
		if v.Spec.Local.Path != "/mnt/disk1" || terms[0].MatchExpressions[0].Values[0] != "host-of-node-2" ||
			len(v.OwnerReferences)+len(v.Finalizers) > 1 {
			t.Errorf("the volume is %+v", v)
		}
		class := &storagev1.StorageClass{}
		must(t, o.client.Get(ctx, client.ObjectKey{Name: naming.LocalClass}, class))
		if class.Provisioner != "kubernetes.io/no-provisioner" ||
			*class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
			t.Errorf("the class is %+v", class)
		}
		if o.get(cacheNode); *cacheNode.Spec.Replicas != 2 {
			t.Errorf("%d replicas, want 2", *cacheNode.Spec.Replicas)
		}
	})

	steps.Run(t, "100 passes write nothing", func() {
		o.writesNothing(cacheNode, 100)
	})

	steps.Run(t, "a node joins", func() {
		o.join("node-3")
		o.hasVolumes(6)
		o.eventually(func() string {
			if o.get(cacheNode); *cacheNode.Spec.Replicas == 3 {
				return ""
			}
			return "the replicas do not follow"
		})
	})

	steps.Run(t, "what is released is offered again", func() {
		v := o.volumes()["node-1 /mnt/disk2"]
		before := v.DeepCopy()
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "disk2-edge-0", UID: "1"}
		must(t, o.client.Patch(ctx, v, client.MergeFrom(before)))
		o.setStatus(v, func() { v.Status.Phase = corev1.VolumeReleased })
		o.eventually(func() string {
			if o.get(v); v.Spec.ClaimRef == nil {
				return ""
			}
			return "it is still that claim's"
		})
		o.setStatus(v, func() { v.Status.Phase = corev1.VolumeAvailable })
	})

	steps.Run(t, "another wants one of the paths", func() {
		other := o.create(strings.NewReplacer(
			"name: edge", "name: other", "/mnt/disk1", "/mnt/disk9", "perNode: true", "perNode: false",
		).Replace(localEdge))
		o.becomes(other, status.InProgressStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonPathTaken)
		const taken = "spec.disks[1].localPath.path: /mnt/disk2 on node node-1 belongs to CacheNode default/edge"
		if text := describe(other); !strings.Contains(text, taken) {
			t.Error(text)
		}
		o.hasVolumes(6)
		must(t, o.client.Delete(ctx, other))
	})

	steps.Run(t, "many want one path at the same moment: one gets it", func() {
		var rivals []*v1alpha1.CacheNode
		for i := range 8 {
			rivals = append(rivals, o.create(strings.NewReplacer(
				"name: edge", fmt.Sprintf("name: rival-%d", i), "/mnt/disk1", "/mnt/contested",
				"/mnt/disk2", fmt.Sprintf("/mnt/rival-%d", i), "perNode: true", "perNode: false",
			).Replace(localEdge)))
		}
		o.eventually(func() string {
			accepted, refused := 0, 0
			for _, rival := range rivals {
				o.get(rival)
				switch c := meta.FindStatusCondition(rival.Status.Conditions, v1alpha1.ConditionAccepted); {
				case c == nil:
				case c.Status == metav1.ConditionTrue:
					accepted++
				case c.Reason == v1alpha1.ReasonPathTaken:
					refused++
				}
			}
			if accepted == 1 && refused == len(rivals)-1 {
				return ""
			}
			return fmt.Sprintf("%d are accepted and %d refused, want 1 and %d", accepted, refused, len(rivals)-1)
		})
		// Another CacheNode gets the path as soon as the winner is gone. It does not wait for the next regular check.
		winner := slices.IndexFunc(rivals, func(rival *v1alpha1.CacheNode) bool {
			return meta.IsStatusConditionTrue(rival.Status.Conditions, v1alpha1.ConditionAccepted)
		})
		volumes := o.volumes()
		must(t, o.client.Delete(ctx, rivals[winner]))
		for _, v := range volumes {
			if v.Labels[naming.LabelInstance] == rivals[winner].Name {
				o.goes(v)
			}
		}
		rivals = slices.Delete(rivals, winner, winner+1)
		o.eventually(func() string {
			for _, rival := range rivals {
				o.get(rival)
				if meta.IsStatusConditionTrue(rival.Status.Conditions, v1alpha1.ConditionAccepted) {
					return ""
				}
			}
			return "none of the others gets the path"
		})
		for _, rival := range rivals {
			must(t, o.client.Delete(ctx, rival))
		}
		o.hasVolumes(6)
	})

	steps.Run(t, "a disk more: the StatefulSet is recreated and its pods stay", func() {
		set := children(cacheNode)[0].(*appsv1.StatefulSet)
		o.get(set)
		before := set.UID
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) {
			s.Disks = append(s.Disks, v1alpha1.Disk{
				Name: "disk3", Size: resource.MustParse("1Gi"), LocalPath: &v1alpha1.LocalPath{Path: "/mnt/disk3"},
			})
		})
		o.eventually(func() string { // no garbage collector runs here, so nothing removes the owner from the pods
			if o.get(set); set.DeletionTimestamp != nil && len(set.Finalizers) == 1 &&
				set.Finalizers[0] == metav1.FinalizerOrphanDependents {
				return ""
			}
			return "it is not being deleted with orphan"
		})
		old := set.DeepCopy()
		set.Finalizers = nil
		must(t, o.client.Patch(ctx, set, client.MergeFrom(old)))
		o.eventually(func() string {
			err := o.client.Get(ctx, client.ObjectKeyFromObject(set), set)
			if err == nil && set.UID != before && len(set.Spec.VolumeClaimTemplates) == 3 {
				return ""
			}
			return "it is not there again with three claims"
		})
		o.hasVolumes(9)
		claim := set.Spec.VolumeClaimTemplates[2]
		if claim.Spec.Selector.MatchLabels[naming.LabelDisk] != "disk3" ||
			*claim.Spec.StorageClassName != naming.LocalClass {
			t.Errorf("the claim is %+v", claim.Spec)
		}
	})

	steps.Run(t, "the CacheNode goes, and its volumes", func() {
		must(t, o.client.Delete(ctx, cacheNode))
		o.hasVolumes(0)
	})
}

// TestClaims checks that claims grow if their StorageClass allows it. It also checks that the CacheNode owns the
// claims, unless the spec retains them.
func TestClaims(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	ctx := context.Background()
	for _, class := range []*storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "elastic"}, Provisioner: "example.com/a", AllowVolumeExpansion: new(true)},
		{ObjectMeta: metav1.ObjectMeta{Name: "rigid"}, Provisioner: "example.com/a"},
	} {
		must(t, o.client.Create(ctx, class))
	}
	cacheNode := o.create(strings.Replace(edge, "[{name: disk1, size: 1Gi}, {name: disk2, size: 3Gi}]",
		"[{name: disk1, size: 1Gi, storageClassName: elastic}, {name: disk2, size: 1Gi, storageClassName: rigid}]", 1))
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for disk, class := range map[string]string{"disk1": "elastic", "disk2": "rigid"} {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: naming.Claim(disk, "edge-0"), Namespace: "default", Labels: naming.Labels("edge"),
		}}
		c.Labels[naming.LabelDisk] = disk
		c.Spec.StorageClassName, c.Spec.AccessModes = new(class), []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		c.Spec.VolumeName = "somebodys-" + disk
		must(t, o.client.Create(ctx, c))
		o.setStatus(c, func() { c.Status.Phase = corev1.ClaimBound })
		claims[disk] = c
	}
	owned := func(want int) {
		t.Helper()
		o.eventually(func() string {
			for _, c := range claims {
				if o.get(c); len(c.OwnerReferences) != want {
					return fmt.Sprintf("%s has %d owners, want %d", c.Name, len(c.OwnerReferences), want)
				}
			}
			return ""
		})
	}
	owned(1)
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) {
		for i := range s.Disks {
			s.Disks[i].Size = resource.MustParse("2Gi")
		}
	})
	o.eventually(func() string {
		set := children(cacheNode)[0].(*appsv1.StatefulSet)
		if o.client.Get(ctx, client.ObjectKeyFromObject(set), set) == nil && set.DeletionTimestamp != nil {
			old := set.DeepCopy()
			set.Finalizers = nil
			must(t, o.client.Patch(ctx, set, client.MergeFrom(old)))
		}
		if o.get(claims["disk1"]); claims["disk1"].Spec.Resources.Requests.Storage().String() == "2Gi" {
			return ""
		}
		return "the claim does not grow"
	})
	for range 5 {
		o.pass(cacheNode)
	}
	if o.get(claims["disk2"]); claims["disk2"].Spec.Resources.Requests.Storage().String() != "1Gi" {
		t.Error("a claim grows whose class does not allow it")
	}
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) {
		s.PersistentVolumeClaimRetentionPolicy.WhenDeleted = v1alpha1.RetainClaims
	})
	owned(0)
}
