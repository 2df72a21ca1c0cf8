package controllers

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/status"
)

// Collector turns the status of each CacheNode into metrics at each scrape. It reads the operator's cache and sends
// no request. Only the active operator reports the CacheNodes, so two replicas of the operator do not report them
// twice. Collector is safe for concurrent use.
type Collector struct {
	Reader client.Reader
	// Elected is closed when this operator becomes active, like the Elected channel of manager.Manager.
	Elected <-chan struct{}
}

// scrapeTimeout limits how long a scrape waits for a cache that is not filled yet.
const scrapeTimeout = 5 * time.Second

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	descLeader = newDesc("cachenode_operator_leader",
		"1 if this operator holds the lease, 0 if it waits for it.")
	descCondition = newDesc("cachenode_condition",
		"1 if the condition of the CacheNode is true, 0 if it is false.", "namespace", "cachenode", "type", "reason")
	descWanted = newDesc("cachenode_replicas_wanted",
		"Wanted pods of the CacheNode.", "namespace", "cachenode")
	descReady = newDesc("cachenode_replicas_ready",
		"Ready pods of the CacheNode.", "namespace", "cachenode")
	descUpdated = newDesc("cachenode_replicas_updated",
		"Pods of the CacheNode with the wanted template, or pods that run the wanted revision of the configuration: "+
			"the smaller of the two numbers.", "namespace", "cachenode")
	descCertificateBegin = newDesc("cachenode_listener_certificate_not_before_timestamp_seconds",
		"When the certificate of listen.tls begins to be valid.", "namespace", "cachenode")
	descCertificateEnd = newDesc("cachenode_listener_certificate_not_after_timestamp_seconds",
		"When the certificate of listen.tls expires.", "namespace", "cachenode")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descLeader, descCondition, descWanted, descReady, descUpdated, descCertificateBegin, descCertificateEnd,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It reads the operator's cache.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	select {
	case <-c.Elected:
		gauge(descLeader, 1)
	default:
		gauge(descLeader, 0)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var cacheNodes v1alpha1.CacheNodeList
	if err := c.Reader.List(ctx, &cacheNodes, client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(descCondition, err)
		return
	}
	var sets appsv1.StatefulSetList
	if err := c.Reader.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		out <- prometheus.NewInvalidMetric(descUpdated, err)
		return
	}
	templated := map[client.ObjectKey]int{} // the number of pods that were created from the wanted template
	for i := range sets.Items {
		templated[client.ObjectKeyFromObject(&sets.Items[i])] = int(status.UpdatedPods(&sets.Items[i]))
	}
	for i := range cacheNodes.Items {
		n := &cacheNodes.Items[i]
		for _, condition := range n.Status.Conditions {
			value := 0.0
			if condition.Status == metav1.ConditionTrue {
				value = 1
			}
			gauge(descCondition, value, n.Namespace, n.Name, condition.Type, condition.Reason)
		}
		if c := n.Status.ListenerCertificate; c != nil {
			gauge(descCertificateBegin, float64(c.NotBefore.Unix()), n.Namespace, n.Name)
			gauge(descCertificateEnd, float64(c.NotAfter.Unix()), n.Namespace, n.Name)
		}
		gauge(descWanted, float64(ptr.Deref(n.Spec.Replicas, 1)), n.Namespace, n.Name)
		gauge(descReady, float64(n.Status.ReadyReplicas), n.Namespace, n.Name)
		configured := 0
		for _, pod := range n.Status.Pods {
			if pod.Revision != "" && pod.Revision == n.Status.ConfigRevision {
				configured++
			}
		}
		gauge(descUpdated, float64(min(configured, templated[client.ObjectKeyFromObject(n)])), n.Namespace, n.Name)
	}
}
