package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/steps"
)

const edge = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  replicas: 2
  disks: [{name: disk1, size: 1Gi}, {name: disk2, size: 3Gi}]
  origin: {servers: [{service: {name: origin, port: 80}}]}
`

func TestReconcile(t *testing.T) {
	t.Parallel()
	whole, config := t, apiserver.Shared(t)
	a := newAgents()
	o := startOperator(t, config, func(r *CacheNodeReconciler) { r.Agents.Calls.Report = a.read })
	a.set(func() { a.o = o })
	ctx := context.Background()
	cacheNode := o.create(edge)
	if got := o.kstatus(cacheNode); got == status.CurrentStatus {
		t.Errorf("kstatus is %s before anything can be there", got)
	}

	steps.Run(t, "comes up", func() {
		o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
		o.makePods(cacheNode, 2)
		o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
		o.rollOut(cacheNode)
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		s := cacheNode.Status
		if len(s.Pods) != 2 || s.Pods[0].Revision != s.ConfigRevision || s.Pods[1].Revision != s.ConfigRevision {
			t.Errorf("it is ready with pods %+v, want two that run %s", s.Pods, s.ConfigRevision)
		}
		// No agent has measured a disk.
		if s.Replicas != 2 || s.ReadyReplicas != 2 || s.ReadyOfReplicas != "2/2" || s.DiskCount != 2 || s.Size != "0" {
			t.Errorf("status is %+v", s)
		}
		if want := "app.kubernetes.io/instance=edge,app.kubernetes.io/name=cachenode"; s.Selector != want {
			t.Errorf("selector is %s, want %s", s.Selector, want)
		}
		want := []v1alpha1.DiskStatus{{Name: "disk1", Share: "25.00%"}, {Name: "disk2", Share: "75.00%"}}
		if !slices.Equal(s.Disks, want) {
			t.Errorf("disks are %v, want %v", s.Disks, want)
		}
	})

	steps.Run(t, "100 passes over an unchanged CacheNode write nothing", func() {
		o.writesNothing(cacheNode, 100)
	})

	steps.Run(t, "hand edits are repaired", func() {
		for name, edit := range handEdits(cacheNode) {
			steps.Run(t, name, func() {
				o.settle(cacheNode)
				o.get(edit.object)
				before := edit.object.DeepCopyObject().(client.Object)
				edit.change()
				must(t, o.client.Patch(ctx, edit.object, client.MergeFrom(before)))
				o.eventually(func() string {
					o.get(edit.object)
					if edit.repaired() {
						return ""
					}
					return "it was not repaired"
				})
			})
		}
	})

	steps.Run(t, "what is deleted is made again", func() {
		for _, object := range children(cacheNode) {
			o.get(object)
			uid := object.GetUID()
			must(t, o.client.Delete(ctx, object))
			o.eventually(func() string {
				if err := o.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil || object.GetUID() == uid {
					return "it is not there again"
				}
				return ""
			})
		}
		o.rollOut(cacheNode)
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	steps.Run(t, "an edit that nginx can reload leaves the pod template alone", func() {
		old, set := cacheNode.Status.ConfigRevision, children(cacheNode)[0].(*appsv1.StatefulSet)
		o.get(set)
		generation := set.Generation
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Disks[0].ThreadPool.Threads = ptr.To[int32](5) })
		o.eventually(func() string {
			o.get(cacheNode)
			if s := cacheNode.Status; s.ConfigRevision != old && s.ObservedGeneration == cacheNode.Generation {
				return ""
			}
			return "the revision does not change"
		})
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		if o.get(set); set.Generation != generation {
			t.Error("the StatefulSet was changed")
		}
	})

	steps.Run(t, "an upgrade of the operator leaves the pod template alone", func() {
		set := children(cacheNode)[0].(*appsv1.StatefulSet)
		o.get(set)
		generation := set.Generation
		o.stop()
		o = o.again(whole, func(r *CacheNodeReconciler) {
			r.Agents.Calls.Report, r.Cluster.Images.Agent = a.read, "localhost/cachenode-operator:next"
		})
		a.set(func() { a.o = o })
		o.t = t
		o.pass(cacheNode)
		if o.get(set); set.Generation != generation ||
			set.Spec.Template.Spec.InitContainers[0].Image != "localhost/cachenode-operator:test" {
			t.Error("the StatefulSet was changed")
		}
		o.get(cacheNode)
		before := cacheNode.DeepCopy()
		cacheNode.Annotations = map[string]string{v1alpha1.AnnotationRestart: "1"} // a user requests a restart
		must(t, o.client.Patch(ctx, cacheNode, client.MergeFrom(before)))
		o.eventually(func() string {
			if o.get(set); set.Spec.Template.Spec.InitContainers[0].Image == "localhost/cachenode-operator:next" {
				return ""
			}
			return "the pods are not replaced"
		})
		o.replacePods(cacheNode)
		o.rollOut(cacheNode)
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	steps.Run(t, "a field that is taken out of the spec is taken out of the object", func() {
		service := children(cacheNode)[1]
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Service.Annotations = map[string]string{"example.com/a": "b"} })
		o.eventually(func() string {
			if o.get(service); service.GetAnnotations()["example.com/a"] == "b" {
				return ""
			}
			return "the annotation does not come"
		})
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Service.Annotations = nil })
		o.eventually(func() string {
			if o.get(service); service.GetAnnotations()["example.com/a"] == "" {
				return ""
			}
			return "the annotation does not go"
		})
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	steps.Run(t, "a wrong spec is refused and the pods go on", func() {
		set := children(cacheNode)[0]
		o.get(set)
		generation := set.GetGeneration()
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) {
			s.Pod.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Mi")}
		})
		o.becomes(cacheNode, status.FailedStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec)
		text := describe(cacheNode)
		if !strings.Contains(text, "spec.pod.resources.limits[memory]") || !strings.Contains(text, "Available=True") {
			t.Error(text)
		}
		if o.get(set); set.GetGeneration() != generation {
			t.Error("the StatefulSet was changed")
		}
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Pod.Resources.Limits = nil })
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	steps.Run(t, "what the API server refuses is refused too", func() {
		service := children(cacheNode)[1]
		o.get(service)
		version := service.GetResourceVersion()
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) {
			s.Service.Port = ptr.To[int32](8888) // valid, but in the same spec as an invalid value
			s.Pod.NodeSelector = map[string]string{"a": "not a label value"}
		})
		o.becomes(cacheNode, status.FailedStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec)
		if text := describe(cacheNode); !strings.Contains(text, "nodeSelector") {
			t.Error(text)
		}
		if o.get(service); service.GetResourceVersion() != version {
			t.Error("the Service was changed though the spec is refused")
		}
		o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Pod.NodeSelector, s.Service.Port = nil, nil })
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	steps.Run(t, "of a new one that it refuses nothing is made", func() {
		for name, spec := range map[string]string{
			"pods": "pod: {nodeSelector: {a: not a label value}}", "service": "service: {annotations: {a b: c}}",
		} {
			refused := o.create(strings.Replace(edge, "name: edge", "name: refused-"+name, 1) + "  " + spec + "\n")
			o.becomes(refused, status.FailedStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec)
			for _, child := range children(refused) {
				if err := o.client.Get(ctx, client.ObjectKeyFromObject(child), child); !apierrors.IsNotFound(err) {
					t.Errorf("%s: %T %s was made (error %v)", name, child, child.GetName(), err)
				}
			}
			o.edit(refused, func(s *v1alpha1.CacheNodeSpec) { s.Pod.NodeSelector, s.Service.Annotations = nil, nil })
			o.becomes(refused, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
			must(t, o.client.Delete(ctx, refused))
		}
	})

	steps.Run(t, "a pod that fails later is no rollout", func() {
		set := children(cacheNode)[0].(*appsv1.StatefulSet)
		o.get(set)
		o.setStatus(set, func() { set.Status.ReadyReplicas, set.Status.AvailableReplicas = 1, 1 })
		o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionDegraded, v1alpha1.ReasonPodsNotReady)
		o.rollOut(cacheNode)
		o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	})

	steps.Run(t, "events tell what happened", func() {
		o.hasEvents(v1alpha1.ReasonRollingOut, v1alpha1.ReasonRolledOut,
			v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonPodsNotReady)
	})

	steps.Run(t, "a restart writes nothing", func() {
		o.ownersAreKnown(cacheNode)
		o.settle(cacheNode)
		o.stop()
		again := o.again(t, func(r *CacheNodeReconciler) { r.Agents.Calls.Report = a.read })
		a.set(func() { a.o = again })
		again.pass(cacheNode)
		again.settle(cacheNode)
		reads, writes := again.requests.take()
		t.Logf("start and first pass of the operator: %d reads (lists, watches and discovery among them), %d writes",
			reads, len(writes))
		if len(writes) != 0 {
			t.Errorf("the first pass after a restart wrote %v", writes)
		}
	})
}

// ownersAreKnown waits until the status shows that the agents of both pods have reported the current owners of keys.
func (o *operator) ownersAreKnown(cacheNode *v1alpha1.CacheNode) {
	o.t.Helper()
	o.eventually(func() string {
		if o.get(cacheNode); cacheNode.Status.Routing == nil || cacheNode.Status.Routing.Applied != "2/2" {
			return fmt.Sprintf("status.routing is %+v", cacheNode.Status.Routing)
		}
		return ""
	})
}

func configMap(cacheNode *v1alpha1.CacheNode) *corev1.ConfigMap {
	c := &corev1.ConfigMap{}
	c.Name, c.Namespace = naming.ConfigMap(cacheNode.Name), cacheNode.Namespace
	return c
}

// children returns the objects of a CacheNode: first the StatefulSet, then the client Service.
func children(cacheNode *v1alpha1.CacheNode) []client.Object {
	objects := []client.Object{
		&appsv1.StatefulSet{}, &corev1.Service{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{},
		&corev1.ConfigMap{}, &corev1.Secret{},
	}
	names := []string{
		cacheNode.Name, cacheNode.Name, naming.Headless(cacheNode.Name), cacheNode.Name,
		naming.ConfigMap(cacheNode.Name), naming.AgentSecret(cacheNode.Name),
	}
	for i, object := range objects {
		object.SetName(names[i])
		object.SetNamespace(cacheNode.Namespace)
	}
	return objects
}

// TestCreation checks that the operator creates the objects of a new CacheNode without reading them first. It also
// checks that a field that is removed from the spec is removed from the objects.
func TestCreation(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	first := o.create(strings.Replace(edge, "name: edge", "name: first", 1)) // starts all informers
	o.becomes(first, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	o.settle(first)
	o.requests.take()
	cacheNode := o.create(edge + "  service: {annotations: {example.com/a: b}}\n")
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	made, created := children(cacheNode), 0
	sent := o.requests.all()
	reported := slices.IndexFunc(sent, func(s string) bool { return strings.HasSuffix(s, "/status") })
	for _, s := range sent[:max(reported, 0)] { // later reads are allowed, because the cache may lag behind
		if isRead(s) {
			t.Errorf("there was a question before: %s", s)
		}
		created++
	}
	if created != len(made)+1 { // one more: a dry run for the StatefulSet
		t.Errorf("%d creations of %d objects: %v", created, len(made), sent)
	}

	service := made[1]
	if o.get(service); service.GetAnnotations()["example.com/a"] != "b" {
		t.Errorf("annotations are %v", service.GetAnnotations())
	}
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Service.Annotations = nil })
	o.eventually(func() string {
		if o.get(service); service.GetAnnotations()["example.com/a"] == "" {
			return ""
		}
		return "the annotation does not go"
	})
	set := made[0].(*appsv1.StatefulSet)
	// The port is part of the key that identifies an element of the list of ports.
	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) { s.Listen.Port = ptr.To[int32](9090) })
	o.eventually(func() string {
		o.get(set)
		for _, port := range set.Spec.Template.Spec.Containers[0].Ports {
			if port.Name == "http" && port.ContainerPort == 9090 {
				return ""
			}
		}
		o.get(cacheNode)
		return "the port does not change: " + describe(cacheNode)
	})
	for _, child := range []client.Object{service, set} {
		for _, entry := range child.GetManagedFields() {
			if entry.Manager == naming.FieldManager && entry.Operation != metav1.ManagedFieldsOperationApply {
				t.Errorf("the operator has fields of %s by %s", child.GetName(), entry.Operation)
			}
		}
	}
}

// TestNameTaken checks that the operator neither changes nor adopts an object that belongs to somebody else. So such an
// object is not deleted with the CacheNode.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	ctx := context.Background()
	service := &corev1.Service{}
	service.Name, service.Namespace = "edge", "default"
	service.Spec.Selector = map[string]string{"app": "somebody-elses"}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	must(t, o.client.Create(ctx, service))
	before := service.ResourceVersion

	cacheNode := o.create(edge)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonNameTaken)
	if text := describe(cacheNode); !strings.Contains(text, `Service "edge" exists and is not the operator's`) {
		t.Error(text)
	}
	if o.get(service); service.ResourceVersion != before {
		t.Errorf("the Service was changed: %v", service)
	}
	must(t, o.client.Delete(ctx, service))
	o.pass(cacheNode)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
}

// BenchmarkReconcile measures a pass over an unchanged CacheNode. Most passes are of this kind.
func BenchmarkReconcile(b *testing.B) {
	o := startOperator(b, apiserver.Shared(b))
	cacheNode := o.create(edge)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	o.rollOut(cacheNode)
	o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	o.settle(cacheNode)
	for b.Loop() {
		o.pass(cacheNode)
	}
}
