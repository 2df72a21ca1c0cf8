package repaired

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/cli/connect"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

func TestRepaired(t *testing.T) {
	c := apiserver.Client(t, apiserver.Start(t))
	ctx := context.Background()
	make := func(name string, labels map[string]string) {
		pod := &corev1.Pod{}
		pod.Name, pod.Namespace, pod.Labels = name, "default", labels
		pod.Spec.Containers = []corev1.Container{{Name: "nginx", Image: "nginx"}}
		pod.Spec.Volumes = []corev1.Volume{
			{Name: "disk1", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk1-edge-0"}}},
			{Name: "run"},
		}
		if err := c.Create(ctx, pod); err != nil {
			t.Fatal(err)
		}
	}
	make("edge-0", naming.Labels("edge"))
	make("stranger", nil)
	cluster := &connect.Cluster{Client: c, Namespace: "default"}
	for name, tt := range map[string]struct {
		pod  string
		disk string
		want string // of the error
	}{
		"a disk":        {"edge-0", "disk1", ""},
		"no such disk":  {"edge-0", "disk9", `has no disk "disk9"`},
		"no disk":       {"edge-0", "run", `has no disk "run"`},
		"no such pod":   {"edge-9", "disk1", "not found"},
		"somebody else": {"stranger", "disk1", "no CacheNode's"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := run(ctx, cluster, tt.pod, []string{tt.disk}, &out)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
			if err == nil && !strings.Contains(out.String(), "edge-0") {
				t.Errorf("it says %q", out.String())
			}
		})
	}
	pod := &corev1.Pod{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "edge-0"}, pod); err != nil {
		t.Fatal(err)
	}
	if got := pod.Annotations[naming.AnnotationRepaired]; got != "disk1" {
		t.Errorf("the annotation is %q", got)
	}
}
