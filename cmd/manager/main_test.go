package main

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

func TestOwnImage(t *testing.T) {
	c := apiserver.Client(t, apiserver.Start(t))
	const image = "registry.example.com/operator@sha256:0123"
	for name, container := range map[string]string{"operator": "manager", "other": "nginx"} {
		pod := &corev1.Pod{}
		pod.Name, pod.Namespace = name, "default"
		pod.Spec.Containers = []corev1.Container{{Name: container, Image: image}}
		if err := c.Create(context.Background(), pod); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := ownImage(context.Background(), c, "default", "operator"); err != nil || got != image {
		t.Errorf("got %q, error %v", got, err)
	}
	for _, name := range []string{"other", "nobody", ""} {
		_, err := ownImage(context.Background(), c, "default", name)
		if err == nil || !strings.Contains(err.Error(), "--agent-image") {
			t.Errorf("pod %q: error %v", name, err)
		}
	}
}

func TestParse(t *testing.T) {
	for _, wrong := range []string{
		"--no-such-flag", "--max-concurrent-reconciles=0", "--nginx-image=", "--nginx-image=Nginx:1",
	} {
		if _, err := parse([]string{wrong}); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
	o, err := parse([]string{"--agent-image=a", "--resolvers=10.0.0.1"})
	images := manifest.Images{Agent: "a", Nginx: v1alpha1.DefaultImage}
	if err != nil || o.images != images || o.clusterDomain != "cluster.local" || o.resolvers != "10.0.0.1" {
		t.Errorf("got %+v, error %v", o, err)
	}
}
