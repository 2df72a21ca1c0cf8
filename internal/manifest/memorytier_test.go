package manifest_test

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
)

// TestBefore checks that the operator chooses a memory tier, io.mode Workers or routing.mode Sharded only for a new
// CacheNode. An upgrade of the operator changes none of them, even while the StatefulSet is recreated.
func TestBefore(t *testing.T) {
	routing := v1alpha1.Routing{Mode: v1alpha1.RoutingLocal}
	of := func(tier bool, mode v1alpha1.IOMode) (text string, set *appsv1.StatefulSet) {
		cacheNode := decodeSpec(t, nil, "")
		cacheNode.Spec.Routing = routing
		cacheNode.Spec.MemoryTier.Enabled, cacheNode.Spec.IO.Mode = &tier, mode
		cacheNode.Spec.MemoryTier = effective.MemoryTier(cacheNode.Spec, false)
		input := manifest.NewPodInput(effective.CacheNode{CacheNode: cacheNode})
		template, _, err := manifest.NewTemplate(
			input, "", nil, manifest.Images{Agent: "operator", Nginx: v1alpha1.DefaultImage}, "revision")
		if err != nil {
			t.Fatal(err)
		}
		content, err := json.Marshal(template)
		if err != nil {
			t.Fatal(err)
		}
		set = &appsv1.StatefulSet{}
		set.Spec.Template, set.Spec.Replicas = template.Template, new(int32(3))
		return string(content), set
	}
	with, setWith := of(true, v1alpha1.IOThreads)
	without, setWithout := of(false, v1alpha1.IOThreads)
	workers, setWorkers := of(false, v1alpha1.IOWorkers)
	both, setBoth := of(true, v1alpha1.IOWorkers)
	routing.Mode = v1alpha1.RoutingSharded
	sharing, setSharing := of(true, v1alpha1.IOThreads)
	alone := setWith.DeepCopy()
	alone.Spec.Replicas = new(int32(1))
	local := func(s effective.Serving) effective.Before {
		return effective.Before{Serving: s, Routing: v1alpha1.RoutingLocal}
	}
	tests := map[string]struct {
		template string
		set      *appsv1.StatefulSet
		want     effective.Before
	}{
		"a new one":                              {"", nil, effective.Before{}},
		"one without":                            {without, setWithout, local(effective.WithoutTier)},
		"one with":                               {with, setWith, local(effective.WithTier)},
		"without, its StatefulSet recreated":     {without, nil, local(effective.WithoutTier)},
		"with, its StatefulSet recreated":        {with, nil, local(effective.WithTier)},
		"without, of before templates were kept": {"", setWithout, local(effective.WithoutTier)},
		"with, its ConfigMap lost":               {"", setWith, local(effective.WithTier)},
		"one with Workers":                       {workers, setWorkers, local(effective.WithWorkers)},
		"with Workers, its ConfigMap lost":       {"", setWorkers, local(effective.WithWorkers)},
		"one with Workers and a tier":            {both, setBoth, local(effective.WithTier)},
		"pods that share keys": {
			sharing, setSharing, effective.Before{Serving: effective.WithTier, Routing: v1alpha1.RoutingSharded},
		},
		"one pod": {with, alone, effective.Before{Serving: effective.WithTier}},
	}
	for name, tt := range tests {
		if got := manifest.Before(tt.template, tt.set); got != tt.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
