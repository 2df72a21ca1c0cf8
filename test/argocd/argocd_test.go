package argocd

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// TestHealthFollowsConditions checks the health of one object for each path through the script. The tests in
// controllers and test/e2e run the script on objects that the operator has written.
func TestHealthFollowsConditions(t *testing.T) {
	for name, test := range map[string]struct {
		object, status, message string
	}{
		"new": {
			object: `{metadata: {generation: 1}, status: {observedGeneration: -1}}`,
			status: "Progressing", message: "The operator has not looked at it yet.",
		},
		"edited": {
			object: `{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [` +
				`{type: Ready, status: "True", message: m}]}}`,
			status: "Progressing", message: "The operator has not looked at the last edit yet.",
		},
		"refused": {
			object: `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [` +
				`{type: Ready, status: "False", message: m}, {type: Stalled, status: "True", message: edit it}]}}`,
			status: "Degraded", message: "edit it",
		},
		"ready": {
			object: `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [` +
				`{type: Ready, status: "True", message: 3 of 3}, {type: Degraded, status: "False", message: no}]}}`,
			status: "Healthy", message: "3 of 3",
		},
		"ready, without a disk": {
			object: `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [` +
				`{type: Ready, status: "True", message: 3 of 3}, ` +
				`{type: Degraded, status: "True", message: disk1 failed}]}}`,
			status: "Healthy", message: "disk1 failed",
		},
		"a Secret is missing": {
			object: `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [` +
				`{type: Ready, status: "False", message: m}, {type: Accepted, status: "False", message: no Secret}]}}`,
			status: "Degraded", message: "no Secret",
		},
		"a pod is missing": {
			object: `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [` +
				`{type: Ready, status: "False", message: m}, {type: Degraded, status: "True", message: 2 of 3}, ` +
				`{type: Progressing, status: "False", message: no}]}}`,
			status: "Degraded", message: "2 of 3",
		},
		"a rollout": {
			object: `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [` +
				`{type: Ready, status: "False", message: 2 of 3 pods}, {type: Progressing, status: "True", message: p}]}}`,
			status: "Progressing", message: "2 of 3 pods",
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := map[string]any{}
			if err := yaml.Unmarshal([]byte(test.object), &object); err != nil {
				t.Fatal(err)
			}
			got, err := Check(object)
			if err != nil {
				t.Fatal(err)
			}
			if want := (Health{test.status, test.message}); got != want {
				t.Errorf("health is %+v, want %+v", got, want)
			}
		})
	}
}
