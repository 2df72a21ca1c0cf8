package controllers

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// TestCollector checks that the active operator reports each CacheNode. An operator that waits for the lease must
// report only that it waits.
func TestCollector(t *testing.T) {
	cacheNode := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "edge"}}
	cacheNode.Spec.Replicas = new(int32(3))
	cacheNode.Status = v1alpha1.CacheNodeStatus{
		ReadyReplicas: 2, ConfigRevision: "new",
		Pods: []v1alpha1.PodStatus{
			{Name: "edge-0", Revision: "new"}, {Name: "edge-1", Revision: "new"}, {Name: "edge-2", Revision: "old"},
		},
		Conditions: []metav1.Condition{
			{Type: "Ready", Status: "False", Reason: "RollingOut"}, {Type: "Accepted", Status: "True", Reason: "Accepted"},
		},
		ListenerCertificate: &v1alpha1.CertificateStatus{
			NotBefore: metav1.Unix(1000, 0), NotAfter: metav1.Unix(2000, 0),
		},
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "edge"}}
	set.Status.UpdatedReplicas = 1
	reader := fake.NewClientBuilder().WithScheme(apiserver.Scheme(t)).
		WithObjects(cacheNode, set).WithStatusSubresource(cacheNode, set).Build()
	elected := make(chan struct{})
	c := &Collector{Reader: reader, Elected: elected}
	const leader = "# HELP cachenode_operator_leader " +
		"1 if this operator holds the lease, 0 if it waits for it.\n" +
		"# TYPE cachenode_operator_leader gauge\n" +
		"cachenode_operator_leader "
	if err := testutil.CollectAndCompare(c, strings.NewReader(leader+"0\n")); err != nil {
		t.Error(err)
	}
	close(elected)
	want := leader + `1
# HELP cachenode_condition 1 if the condition of the CacheNode is true, 0 if it is false.
# TYPE cachenode_condition gauge
cachenode_condition{cachenode="edge",namespace="a",reason="Accepted",type="Accepted"} 1
cachenode_condition{cachenode="edge",namespace="a",reason="RollingOut",type="Ready"} 0
# HELP cachenode_listener_certificate_not_after_timestamp_seconds When the certificate of listen.tls expires.
# TYPE cachenode_listener_certificate_not_after_timestamp_seconds gauge
cachenode_listener_certificate_not_after_timestamp_seconds{cachenode="edge",namespace="a"} 2000
# HELP cachenode_listener_certificate_not_before_timestamp_seconds When the certificate of listen.tls begins to be ` +
		`valid.
# TYPE cachenode_listener_certificate_not_before_timestamp_seconds gauge
cachenode_listener_certificate_not_before_timestamp_seconds{cachenode="edge",namespace="a"} 1000
# HELP cachenode_replicas_ready Ready pods of the CacheNode.
# TYPE cachenode_replicas_ready gauge
cachenode_replicas_ready{cachenode="edge",namespace="a"} 2
# HELP cachenode_replicas_updated Pods of the CacheNode with the wanted template, ` +
		`or pods that run the wanted revision of the configuration: the smaller of the two numbers.
# TYPE cachenode_replicas_updated gauge
cachenode_replicas_updated{cachenode="edge",namespace="a"} 1
# HELP cachenode_replicas_wanted Wanted pods of the CacheNode.
# TYPE cachenode_replicas_wanted gauge
cachenode_replicas_wanted{cachenode="edge",namespace="a"} 3
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestOtherNamespaces checks that a request for a CacheNode in a namespace that is not watched is dropped before
// anything is read. The events of another operator's volumes cause such requests.
func TestOtherNamespaces(t *testing.T) {
	r := &CacheNodeReconciler{Cluster: Cluster{Namespaces: []string{"a"}}}
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "b", Name: "edge"}}
	result, err := r.Reconcile(t.Context(), request)
	if err != nil || result.RequeueAfter != 0 {
		t.Errorf("result %v, error %v", result, err)
	}
}
