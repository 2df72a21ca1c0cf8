package manifest_test

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// TestBefore checks that only a new CacheNode gets a tier, or io.mode Workers, without asking for it. An upgrade of the
// operator changes neither, even while the StatefulSet is recreated.
func TestBefore(t *testing.T) {
	of := func(tier bool, mode v1alpha1.IOMode) (text string, set *appsv1.StatefulSet) {
		cacheNode := decodeSpec(t, nil, "")
		cacheNode.Spec.MemoryTier.Enabled, cacheNode.Spec.IO.Mode = &tier, mode
		cacheNode.Spec.MemoryTier = tuning.MemoryTier(cacheNode.Spec, false)
		input := manifest.NewPodInput(effective.CacheNode{CacheNode: cacheNode})
		template, _, err := manifest.NewTemplate(input, "", "operator", "", "revision")
		if err != nil {
			t.Fatal(err)
		}
		content, err := json.Marshal(template)
		if err != nil {
			t.Fatal(err)
		}
		set = &appsv1.StatefulSet{}
		set.Spec.Template = template.Template
		return string(content), set
	}
	with, setWith := of(true, v1alpha1.IOThreads)
	without, setWithout := of(false, v1alpha1.IOThreads)
	workers, setWorkers := of(false, v1alpha1.IOWorkers)
	both, setBoth := of(true, v1alpha1.IOWorkers)
	tests := map[string]struct {
		template string
		set      *appsv1.StatefulSet
		want     tuning.Before
	}{
		"a new one":                              {"", nil, tuning.Nothing},
		"one without":                            {without, setWithout, tuning.WithoutTier},
		"one with":                               {with, setWith, tuning.WithTier},
		"without, its StatefulSet recreated":     {without, nil, tuning.WithoutTier},
		"with, its StatefulSet recreated":        {with, nil, tuning.WithTier},
		"without, of before templates were kept": {"", setWithout, tuning.WithoutTier},
		"with, its ConfigMap lost":               {"", setWith, tuning.WithTier},
		"one with Workers":                       {workers, setWorkers, tuning.WithWorkers},
		"with Workers, its ConfigMap lost":       {"", setWorkers, tuning.WithWorkers},
		"one with Workers and a tier":            {both, setBoth, tuning.WithTier},
	}
	for name, tt := range tests {
		if got := manifest.Before(tt.template, tt.set); got != tt.want {
			t.Errorf("%s: got %d", name, got)
		}
	}
}
