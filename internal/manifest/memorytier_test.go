package manifest_test

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/tuning"
)

// TestHadMemoryTier: only a CacheNode of which there is nothing yet gets a tier without asking for it; an upgrade of the
// operator switches none on, even while the StatefulSet is made anew.
func TestHadMemoryTier(t *testing.T) {
	of := func(tier bool) (text string, set *appsv1.StatefulSet) {
		node := decodeSpec(t, nil, "")
		node.Spec.MemoryTier.Enabled = &tier
		node.Spec.MemoryTier = tuning.MemoryTier(node.Spec, false)
		template, _, err := manifest.NewTemplate(manifest.NewPodInput(node), "", "operator", "", "revision")
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
		want     bool
	}{
		"a new one":                              {"", nil, true},
		"one without":                            {without, setWithout, false},
		"one with":                               {with, setWith, true},
		"without, its StatefulSet made anew":     {without, nil, false},
		"with, its StatefulSet made anew":        {with, nil, true},
		"without, of before templates were kept": {"", setWithout, false},
		"with, its ConfigMap lost":               {"", setWith, true},
	}
	for name, tt := range tests {
		if got := manifest.HadMemoryTier(tt.template, tt.set); got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
