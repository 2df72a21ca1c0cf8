package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/cli/podmetrics"
)

// summary is the verb's output for programs.
type summary struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Revision  string `json:"revision,omitempty"`
	// Generation is the generation of the present spec. ObservedGeneration is the generation that the other fields
	// describe.
	Generation         int64 `json:"generation"`
	ObservedGeneration int64 `json:"observedGeneration"`
	// Certificate describes the certificate of spec.listen.tls.
	Certificate *v1alpha1.CertificateStatus `json:"certificate,omitempty"`
	Conditions  []metav1.Condition          `json:"conditions,omitempty"`
	// Routing says how the pods share the keys; left out if they do not share keys.
	Routing *v1alpha1.RoutingStatus `json:"routing,omitempty"`
	// OutdatedPods is the number of pods with an agent or an nginx that is older than it should be.
	OutdatedPods int32 `json:"outdatedPods,omitempty"`
	Pods         []pod `json:"pods,omitempty"`
}

// pod is a pod of the CacheNode with all its disks.
type pod struct {
	Name         string `json:"name"`
	Node         string `json:"node,omitempty"`
	Revision     string `json:"revision,omitempty"`
	NginxVersion string `json:"nginxVersion,omitempty"`
	// Outdated says what in the pod is older than it should be; left out if nothing is outdated.
	Outdated string `json:"outdated,omitempty"`
	// Share is the part of all keys that the pod owns; left out if the pods do not share keys.
	Share   string `json:"share,omitempty"`
	Message string `json:"message,omitempty"`
	Disks   []disk `json:"disks,omitempty"`
}

// disk is a disk of a pod. Its numbers are left out if the pod's metrics cannot be read. Requests is an estimate from
// the sample. HitRatio is from 0 to 1, and is left out if the sample is too small.
type disk struct {
	Name      string   `json:"name"`
	State     string   `json:"state"`
	Share     string   `json:"share"`
	Message   string   `json:"message,omitempty"`
	SizeBytes int64    `json:"sizeBytes,omitempty"`
	UsedBytes int64    `json:"usedBytes,omitempty"`
	Requests  int64    `json:"requests,omitempty"`
	HitRatio  *float64 `json:"hitRatio,omitempty"`
	Overflows int64    `json:"overflows,omitempty"`
}

func summarize(cacheNode *v1alpha1.CacheNode, numbers map[string]podmetrics.Pod) summary {
	s := summary{
		Name: cacheNode.Name, Namespace: cacheNode.Namespace,
		Revision: cacheNode.Status.ConfigRevision, Conditions: cacheNode.Status.Conditions,
		Routing: cacheNode.Status.Routing, OutdatedPods: cacheNode.Status.OutdatedPods,
		Certificate: cacheNode.Status.ListenerCertificate,
		Generation:  cacheNode.Generation, ObservedGeneration: cacheNode.Status.ObservedGeneration,
	}
	for _, p := range cacheNode.Status.Pods {
		one := pod{
			Name: p.Name, Node: p.Node, Revision: p.Revision, Share: p.Share,
			Message: agentapi.Printable(p.Message, maxLine), NginxVersion: agentapi.Printable(p.NginxVersion, maxLine),
			Outdated: agentapi.Printable(p.Outdated, maxLine),
		}
		for _, d := range cacheNode.Status.Disks {
			state, share := stateOf(p, d)
			n := numbers[p.Name].Disks[d.Name]
			told := disk{
				Name: d.Name, State: state, Share: share, SizeBytes: int64(n.Size), UsedBytes: int64(n.UsedBytes),
				Requests: int64(n.All()), Overflows: int64(n.Overflows),
			}
			if podmetrics.IsEnough(n.Requests, n.Sampling) {
				told.HitRatio = new(n.Hits / n.Requests)
			}
			for _, reported := range p.Disks {
				if reported.Name == d.Name {
					told.Message = agentapi.Printable(reported.Message, maxLine)
				}
			}
			one.Disks = append(one.Disks, told)
		}
		s.Pods = append(s.Pods, one)
	}
	return s
}
