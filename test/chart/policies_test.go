package chart

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/await"
)

// These are the names of users in Kubernetes. The chart is rendered as release "test" in namespace "test".
const (
	tenant      = "mallory"
	operator    = "system:serviceaccount:test:test-cachenode-operator"
	statefulSet = "system:serviceaccount:kube-system:statefulset-controller"
	binder      = "system:serviceaccount:kube-system:persistent-volume-binder"
)

// policies starts an API server with the admission policies and cluster roles that the chart renders by default. It
// returns a client for an administrator, and a function that returns a client for a user.
func policies(t *testing.T, definitions ...string) (admin client.Client, as func(user string) client.Client) {
	t.Helper()
	config := apiserver.Start(t, definitions...)
	admin = apiserver.Client(t, config)
	for _, name := range []string{"test", "tenant", "victim"} {
		create(t, admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, object := range read(t, "defaults") {
		switch object.GetKind() {
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
			"ClusterRole", "ClusterRoleBinding", "ServiceAccount":
			create(t, admin, object)
		}
	}
	create(t, admin, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: "tenant"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"*"},
		}},
	})
	create(t, admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: tenant}},
	})
	return admin, func(user string) client.Client {
		other := rest.CopyConfig(config)
		other.Impersonate.UserName = user
		return apiserver.Client(t, other)
	}
}

func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(context.Background(), object); err != nil {
		t.Fatal(err)
	}
}

// localClaim returns a claim like the claims that the StatefulSet of the CacheNode tenant/edge creates. change changes
// the claim; nil for no change.
func localClaim(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "disk1-edge-0", Namespace: "tenant", Labels: naming.Labels("edge")},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: new(naming.LocalClass),
			Selector: &metav1.LabelSelector{
				MatchLabels: naming.VolumeLabels("tenant", "edge", "disk1", naming.RoleDisk),
			},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
	if change != nil {
		change(claim)
	}
	return claim
}

// TestClaims checks that a claim with the operator's StorageClass can get only volumes of its own CacheNode, no matter
// who creates the claim.
func TestClaims(t *testing.T) {
	t.Parallel()
	admin, as := policies(t)
	stolen := func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = nil }
	isRefused(t, as(tenant), localClaim(stolen))
	selecting := func(key, value string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector.MatchLabels[key] = value }
	}
	for name, tt := range map[string]struct {
		user   string
		change func(*corev1.PersistentVolumeClaim)
		want   string // "" if it is accepted
	}{
		"the StatefulSet's own":      {user: statefulSet},
		"the tenant's, made alike":   {user: tenant},
		"of any volume":              {tenant, stolen, "spec.selector: a claim of class cachenode-local must select"},
		"of any, from a StatefulSet": {statefulSet, stolen, "spec.selector"},
		"of any, by the annotation of old": {tenant, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.StorageClassName, c.Spec.Selector = nil, nil
			c.Annotations = map[string]string{"volume.beta.kubernetes.io/storage-class": naming.LocalClass}
		}, "spec.selector"},
		"of another namespace's": {tenant, selecting(naming.LabelNamespace, "victim"), "spec.selector"},
		"of no namespace's": {tenant, func(c *corev1.PersistentVolumeClaim) {
			delete(c.Spec.Selector.MatchLabels, naming.LabelNamespace)
		}, "spec.selector"},
		"of another CacheNode's": {tenant, selecting(naming.LabelInstance, "other"), "spec.selector"},
		"of a placeholder":       {tenant, selecting(naming.LabelRole, naming.RolePlaceholder), "spec.selector"},
		"of a volume by name": {
			tenant, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "cachenode-0123" },
			"spec.volumeName: a claim of class cachenode-local must not name its volume: cachenode-0123",
		},
		"of another class": {tenant, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.StorageClassName, c.Spec.Selector = new("other"), nil
		}, ""},
		"a scout's, by the operator": {operator, func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector, c.Spec.VolumeName = nil, "cachenode-scout-1"
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, as(tt.user).Create(context.Background(), localClaim(tt.change), client.DryRunAll), tt.want)
		})
	}

	// After the creation of a claim, only the volume binder may set the name of the volume.
	ctx := context.Background()
	create(t, admin, localClaim(nil))
	update := func(user string, change func(*corev1.PersistentVolumeClaim)) error {
		claim := &corev1.PersistentVolumeClaim{}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(localClaim(nil)), claim); err != nil {
			t.Fatal(err)
		}
		change(claim)
		return as(user).Update(ctx, claim, client.DryRunAll)
	}
	bind := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "cachenode-0123" }
	check(t, update(tenant, bind), "spec.volumeName: a claim of class cachenode-local must not name its volume")
	check(t, update(binder, bind), "")
	check(t, update(tenant, func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{"a": "b"} }), "")
}

// isRefused waits until the API server refuses an object. New policies take effect only after a moment.
func isRefused(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	await.Until(t, func() string {
		if c.Create(context.Background(), object.DeepCopyObject().(client.Object), client.DryRunAll) == nil {
			return "the policies have no effect"
		}
		return ""
	})
}

func check(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil {
		t.Errorf("refused: %v", err)
	}
	if want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want it refused with %q", err, want)
	}
}

// TestWrites checks that the policy prevents the operator from writing pods, Secrets and volumes of others, although
// the operator's roles allow this.
func TestWrites(t *testing.T) {
	t.Parallel()
	admin, as := policies(t)
	own := func(meta metav1.ObjectMeta) metav1.ObjectMeta {
		meta.Labels = naming.Labels("edge")
		return meta
	}
	meta := metav1.ObjectMeta{Name: "a", Namespace: "victim"}
	pod := func(meta metav1.ObjectMeta) client.Object {
		return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
	}
	secret := func(meta metav1.ObjectMeta) client.Object { return &corev1.Secret{ObjectMeta: meta} }
	volume := func(meta metav1.ObjectMeta) client.Object {
		meta.Namespace = ""
		return &corev1.PersistentVolume{ObjectMeta: meta, Spec: corev1.PersistentVolumeSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			StorageClassName: naming.LocalClass,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: "/mnt/a", Type: new(corev1.HostPathDirectory),
			}},
		}}
	}
	isRefused(t, as(operator), secret(meta))
	ctx := context.Background()
	const refused, untouchable = "the CacheNode operator must not write objects without the label",
		"the CacheNode operator must not change or delete objects of others"
	for name, object := range map[string]func(metav1.ObjectMeta) client.Object{
		"pod":    pod,
		"Secret": secret,
		"volume": volume,
	} {
		t.Run(name, func(t *testing.T) {
			check(t, as(operator).Create(ctx, object(meta), client.DryRunAll), refused)
			check(t, as(operator).Create(ctx, object(own(meta)), client.DryRunAll), "")
			others := object(meta)
			create(t, admin, others)
			label := client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"cachenode-operator"}}}`))
			check(t, as(operator).Patch(ctx, others, label, client.DryRunAll), untouchable)
			if name != "Secret" { // the operator has no right to delete Secrets
				check(t, as(operator).Delete(ctx, others, client.DryRunAll), untouchable)
			}
			if err := admin.Delete(ctx, others, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
		})
	}
	// The operator's StorageClass is the only object that all CacheNodes share.
	check(t, as(operator).Create(ctx, manifest.LocalClass(), client.DryRunAll), "")
}
