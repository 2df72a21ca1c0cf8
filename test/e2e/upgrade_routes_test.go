package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// earlierRoutes is the last commit whose nginx.conf has maps of its own for each host of a route.
const earlierRoutes = "a1ea93fb7f57"

// TestUpgradeOfRoutes upgrades the operator of a fleet that serves routes, replaces the pods, and goes back. What was
// stored for a route before the upgrade must be a HIT after each change. The test has the same requirements as
// TestUpgrade.
func TestUpgradeOfRoutes(t *testing.T) {
	s := withEarlier(t, earlierRoutes)
	installGatewayAPI(t)
	t.Cleanup(func() {
		kubectl(t, "", "delete", "namespace", "team-a", "--ignore-not-found", "--wait")
		// The earlier operator does not know the finalizer that the later one has added.
		kubectl(t, "", "patch", "gatewayclass", "edge", "--type", "merge", "-p", `{"metadata": {"finalizers": null}}`)
		kubectl(t, "", "delete", "gatewayclass", "edge", "--ignore-not-found")
		kubectl(t, "", "delete", "referencegrants", "--all")
	})
	s.starts(t, theFleet)
	kubectl(t, fmt.Sprintf(aGrant, "team-a"), "apply", "-f", "-")
	kubectl(t, fmt.Sprintf(aTeam, "team-a", "origin"), "apply", "-n", "team-a", "-f", "-")
	address := gatewayIs(t, "team-a", "Programmed", "True")
	s.answers(t, address, "www.example.com")
	s.fetchFrom(t, address, "www.example.com", "kept")
	hits := func(t *testing.T, s *suite) {
		s.current(t)
		s.answers(t, address, "www.example.com")
		got := caches(s.fetchFrom(t, address, "www.example.com", "kept"))
		if diff := cmp.Diff(map[string]int{"HIT": 50}, got); diff != "" {
			t.Errorf("what was stored before the upgrade (-want +got)\n%s", diff)
		}
	}
	s.inOrder(t, []step{
		{"objects are stored", hits},
		{"the upgrade restarts no pod, and keeps them", func(t *testing.T, s *suite) {
			before := uids(s.cachePods(t))
			upgradesOperator(t)
			s.passesAgain(t)
			hits(t, s)
			if diff := cmp.Diff(before, uids(s.cachePods(t))); diff != "" {
				t.Errorf("pods were replaced or restarted (-before +after)\n%s", diff)
			}
		}},
		{"new pods keep them", func(t *testing.T, s *suite) {
			old := s.cachePods(t)
			kubectl(t, "", "annotate", "cachenode", name, v1alpha1.AnnotationRestart+"=upgraded", "--overwrite")
			within(t, 4*time.Minute, func() string {
				for _, pod := range s.cachePods(t) {
					if slices.ContainsFunc(old, func(p corev1.Pod) bool { return p.UID == pod.UID }) {
						return fmt.Sprintf("%s is not replaced", pod.Name)
					}
				}
				return ""
			})
			hits(t, s)
		}},
		{"the way back keeps them", func(t *testing.T, s *suite) {
			returnsOperator(t)
			s.passesAgain(t)
			hits(t, s)
		}},
	})
}
