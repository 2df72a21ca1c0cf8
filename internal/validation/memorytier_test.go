package validation_test

import (
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

func TestMemoryTier(t *testing.T) {
	tests := map[string]struct {
		tier, resources string
		want            string // "" for none
	}{
		"nothing said":     {"{}", "{limits: {memory: 1Gi}}", ""},
		"within the limit": {"{size: 256Mi}", "{limits: {memory: 1Gi}}", ""},
		"more than half of the limit": {
			"{size: 513Mi}", "{limits: {memory: 1Gi}}",
			`spec.memoryTier.size: Invalid value: "513Mi": is more than half of spec.pod.resources.limits.memory, 1Gi`,
		},
		"no room for nginx itself": {
			"{size: 32Mi}", "{limits: {memory: 64Mi, cpu: 8}}",
			`with the 98Mi that nginx needs for itself and the keys zones it is 130Mi`,
		},
		"more than is requested": {
			"{size: 256Mi}", "{requests: {memory: 128Mi}, limits: {memory: 1Gi}}",
			"is more than spec.pod.resources.requests.memory, 128Mi",
		},
		"switched off": {"{size: 513Mi, enabled: false}", "{limits: {memory: 1Gi}}", ""},
		"an age of nothing": {
			"{maxExtraAge: 500ms}", "{}",
			"spec.memoryTier.maxExtraAge: Invalid value: \"500ms\": must be at least 1s",
		},
		"never used": {"{inactive: 0s}", "{}", "spec.memoryTier.inactive"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: cachenode.io/v1alpha1\nkind: CacheNode\nmetadata: {name: edge}\nspec:\n" +
				"  disks: [{name: disk1, size: 10Gi}]\n" +
				"  origin: {servers: [{host: a.example.com}]}\n" +
				"  memoryTier: " + tt.tier + "\n  pod: {resources: " + tt.resources + "}\n"
			cacheNode, errs, err := schema.Decode([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(errs) == 0 {
				errs = validation.Validate(cacheNode)
			} else if tt.want != "" {
				return // the API server refuses it, see test/cel
			}
			if len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
