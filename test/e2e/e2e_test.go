package e2e

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// TestEndToEnd follows one CacheNode, the sample, from its creation to its end.
func TestEndToEnd(t *testing.T) {
	s := newSuite(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"the sample becomes ready", becomesReady},
		{"objects are served right and lie where the plan says", servesByPlan},
		{"a deleted pod comes back with its cache warm", comesBackWarm},
		{"an edit reaches every pod without a failed request", editsUnderLoad},
		{"a bad edit is refused and the pods go on", refusesBadEdits},
		{"scaling", scales},
		{"the operator's metrics need authentication", metricsNeedAuthentication},
		{"deleting it removes what it made", deletes},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, s) }) {
			t.Log(kubectl(t, "", "get", "cachenodes,pods,pvc,events", "-o", "wide"))
			t.FailNow() // the steps build on each other
		}
	}
}

func becomesReady(t *testing.T, s *suite) {
	begun := time.Now()
	kubectl(t, "", "apply", "-f", "../../config/samples/cachenode.yaml")
	node := s.current(t)
	t.Logf("ready %s after apply\n%s", time.Since(begun).Round(100*time.Millisecond), kubectl(t, "", "get", "cachenode"))
	nodes := map[string]bool{}
	for _, p := range s.cachePods(t) {
		nodes[p.Spec.NodeName] = true
	}
	if len(nodes) != 3 || node.Status.ReadyReplicas != 3 {
		t.Errorf("%d pods are ready, on %d nodes; want three on three", node.Status.ReadyReplicas, len(nodes))
	}
}

// scales goes from 2 to 3 to 1 by the scale subresource.
func scales(t *testing.T, s *suite) {
	for _, replicas := range []string{"2", "3", "1"} {
		kubectl(t, "", "scale", "cachenode/"+name, "--replicas="+replicas)
		s.current(t)
		for _, r := range s.fetch(t, 0, objects[:20], "-base", base) {
			if r.Error != "" {
				t.Errorf("with %s pods: %s: %s", replicas, r.Path, r.Error)
			}
		}
	}
	claims := &corev1.PersistentVolumeClaimList{}
	must(t, s.List(context.Background(), claims))
	if len(claims.Items) != 9 {
		t.Errorf("%d claims, want 9: those of pods that were scaled away are retained", len(claims.Items))
	}
}

func metricsNeedAuthentication(t *testing.T, _ *suite) {
	const url = "https://cachenode-operator-metrics.cachenode-system:8443/metrics"
	script := `kubectl -n cachenode-system get --raw /api/v1/namespaces/cachenode-system/services/https:cachenode-operator-metrics:metrics/proxy/metrics`
	// The API server's proxy drops the client's credentials, so the request arrives without any.
	if out, err := tryKubectl("", "get", "--raw", "/api/v1/namespaces/cachenode-system/services/https:cachenode-operator-metrics:metrics/proxy/metrics"); err == nil {
		t.Errorf("%s answers strangers (%s): %.200s", url, script, out)
	}
}

func deletes(t *testing.T, s *suite) {
	ctx := context.Background()
	kubectl(t, "", "delete", "cachenode", name, "--wait")
	lists := map[string]client.ObjectList{
		"StatefulSets": &appsv1.StatefulSetList{}, "Pods": &corev1.PodList{}, "Services": &corev1.ServiceList{},
		"ConfigMaps": &corev1.ConfigMapList{}, "PodDisruptionBudgets": &policyv1.PodDisruptionBudgetList{},
		"claims": &corev1.PersistentVolumeClaimList{},
	}
	deadline := time.Now().Add(2 * time.Minute)
	for kind, list := range lists {
		for {
			must(t, s.List(ctx, list, client.MatchingLabels(naming.PodSelector(name))))
			n := len(mustItems(t, list))
			if n == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%d %s are left", n, kind)
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}
