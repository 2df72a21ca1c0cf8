package chart

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// TestVolumes checks which volumes the chart's admission policy lets the operator create: those of its own class for
// folders directly in /mnt, and placeholders. The operator's roles alone would allow it to create any PersistentVolume.
func TestVolumes(t *testing.T) {
	t.Parallel()
	_, as := policies(t)
	ctx := context.Background()
	cacheNode := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Name: "edge", Namespace: "tenant", UID: "1"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	disk := v1alpha1.Disk{
		Name: "disk1", Size: resource.MustParse("1Gi"), LocalPath: &v1alpha1.LocalPath{Path: "/mnt/disk1"},
	}
	local := func(path string) *corev1.PersistentVolume {
		volume := manifest.LocalVolume(cacheNode, disk, node)
		volume.Spec.Local.Path = path
		return volume
	}
	scout := func(path string) *corev1.PersistentVolume {
		volume := manifest.ScoutVolume(manifest.ScoutInput{CacheNode: cacheNode, Disk: disk, Pod: "edge-0", Node: node})
		volume.Spec.HostPath.Path = path
		return volume
	}
	placeholder := manifest.Placeholder(cacheNode, localClaim(nil), "disk1", node)
	with := func(volume *corev1.PersistentVolume, change func(*corev1.PersistentVolumeSpec)) *corev1.PersistentVolume {
		volume = volume.DeepCopy()
		change(&volume.Spec)
		return volume
	}
	const refused = "the CacheNode operator must not create a volume of "
	isRefused(t, as(operator), local("/etc"))
	for name, tt := range map[string]struct {
		volume *corev1.PersistentVolume
		want   string // "" if it is accepted
	}{
		"a disk":                       {local("/mnt/disk1"), ""},
		"a disk with dots in its name": {local("/mnt/..disk1"), ""},
		"a scout's":                    {scout("/mnt/disk1"), ""},
		"a placeholder":                {placeholder, ""},
		"a disk elsewhere":             {local("/etc"), refused + "/etc: only of folders directly in /mnt"},
		"the prefix itself":            {local("/mnt"), refused},
		"the prefix and a slash":       {local("/mnt/"), refused},
		"a deeper folder":              {local("/mnt/disk1/deep"), refused},
		"the folder itself":            {local("/mnt/."), refused},
		"what begins alike":            {local("/mntb/disk1"), refused},
		"a scout's of the root":        {scout("/"), refused + "/: only of folders"},
		"a scout's in a deeper folder": {scout("/mnt/disk1/deep"), refused},
		"a scout's that may be no folder": {with(scout("/mnt/disk1"), func(s *corev1.PersistentVolumeSpec) {
			s.HostPath.Type = new(corev1.HostPathSocket)
		}), refused},
		"a scout's that is made": {with(scout("/mnt/disk1"), func(s *corev1.PersistentVolumeSpec) {
			s.HostPath.Type = new(corev1.HostPathDirectoryOrCreate)
		}), refused},
		"of another class": {with(local("/mnt/disk1"), func(s *corev1.PersistentVolumeSpec) {
			s.StorageClassName = "other"
		}), refused},
		"another folder in the place of a placeholder": {with(placeholder, func(s *corev1.PersistentVolumeSpec) {
			s.HostPath.Path = "/var/lib"
		}), refused},
		"another kind": {with(local("/mnt/disk1"), func(s *corev1.PersistentVolumeSpec) {
			s.PersistentVolumeSource = corev1.PersistentVolumeSource{
				NFS: &corev1.NFSVolumeSource{Server: "192.0.2.1", Path: "/mnt/disk1"},
			}
		}), refused + "this kind"},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, as(operator).Create(ctx, tt.volume.DeepCopy(), client.DryRunAll), tt.want)
		})
	}
}

// TestPodsOfHosts checks that the policy prevents the operator from creating pods with hostPath volumes. If somebody
// else has added such a volume to a StatefulSet, the operator can still write other fields of the StatefulSet.
func TestPodsOfHosts(t *testing.T) {
	t.Parallel()
	admin, as := policies(t)
	ctx := context.Background()
	meta := metav1.ObjectMeta{Name: "a", Namespace: "victim", Labels: naming.Labels("edge")}
	spec := func(paths ...string) corev1.PodSpec {
		pod := corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}
		for _, path := range paths {
			pod.Volumes = append(pod.Volumes, corev1.Volume{
				Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
			})
		}
		return pod
	}
	set := func(paths ...string) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: spec(paths...),
			},
		}}
	}
	const refused = "the CacheNode operator must not create pods with hostPath volumes"
	isRefused(t, as(operator), set("/"))
	check(t, as(operator).Create(ctx, set("/"), client.DryRunAll), refused)
	check(t, as(operator).Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: spec("/")}, client.DryRunAll), refused)
	check(t, as(operator).Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: spec()}, client.DryRunAll), "")

	create(t, admin, set("/var/log"))
	patch := func(text string) error {
		return as(operator).Patch(ctx, set(), client.RawPatch("application/merge-patch+json", []byte(text)), client.DryRunAll)
	}
	check(t, patch(`{"spec":{"replicas":2}}`), "")
	check(t, patch(`{"spec":{"template":{"spec":{"volumes":[{"name":"host","hostPath":{"path":"/"}}]}}}}`), refused)
}
