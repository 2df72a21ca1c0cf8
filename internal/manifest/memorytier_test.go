package manifest_test

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// TestMemoryTierBefore checks that only a new CacheNode gets a tier without asking for it. An upgrade of the operator
// does not switch a tier on, even while the StatefulSet is recreated.
func TestMemoryTierBefore(t *testing.T) {
	of := func(tier bool) (text string, set *appsv1.StatefulSet) {
		cacheNode := decodeSpec(t, nil, "")
		cacheNode.Spec.MemoryTier.Enabled = &tier
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
	with, setWith := of(true)
	without, setWithout := of(false)
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
	}
	for name, tt := range tests {
		if got := manifest.MemoryTierBefore(tt.template, tt.set); got != tt.want {
			t.Errorf("%s: got %d", name, got)
		}
	}
}
