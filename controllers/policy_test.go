package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/validation"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// anythingGoes sets a policy that allows all specs of these tests, like an operator from the time before policies
// existed.
func anythingGoes(r *CacheNodeReconciler) {
	r.Cluster.Policy = validation.Policy{
		LocalPathPrefixes: []string{"/mnt", "/srv", "/mnt/disk1"}, Images: []string{"*"},
		PriorityClasses: []string{"system-node-critical"}, OriginNamespaces: []string{"*"}, ClusterDomain: "cluster.local",
		PodAnnotations: []string{"*"}, AntiAffinityNamespaces: []string{"*"},
	}
}

// TestStricterOperator checks CacheNodes that an earlier operator accepted and this operator does not accept. The
// status must say why, and the objects that were created for the CacheNode must stay unchanged. Only the policy for
// origins in the ConfigMap must be the new policy.
func TestStricterOperator(t *testing.T) {
	t.Parallel()
	localDisk := func(path string) string {
		return "{name: disk1, size: 1Gi, localPath: {path: " + path + "}}"
	}
	tests := map[string]struct {
		disk, server, pod string
		// edit is applied while no operator runs. It turns a valid spec into a spec that only an earlier operator would
		// accept.
		edit func(*v1alpha1.CacheNodeSpec)
		want string
	}{
		"a disk where others have data": {
			disk: localDisk("/srv/disk1"),
			want: "spec.disks[0].localPath.path: Forbidden: /srv/disk1 must be a folder directly in /mnt",
		},
		"a disk in a deeper folder": {
			disk: localDisk("/mnt/disk1/deep"),
			want: "/mnt/disk1/deep must be a folder directly in /mnt",
		},
		"an image of its own": {pod: "image: mallory/nginx", want: "spec.pod.image: Forbidden"},
		"a priority of the system": {
			pod:  "priorityClassName: system-node-critical",
			want: "spec.pod.priorityClassName: Forbidden",
		},
		"a toleration of everything": {
			pod:  "tolerations: [{operator: Exists}]",
			want: "spec.pod.tolerations[0]: Forbidden",
		},
		"a cloud's identity": {
			pod:  "annotations: {iam.amazonaws.com/role: admin}",
			want: "spec.pod.annotations[iam.amazonaws.com/role]: Forbidden",
		},
		"apart from pods of all namespaces": {
			pod: "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
				"[{topologyKey: kubernetes.io/hostname, namespaceSelector: {}}]}}",
			want: "spec.pod.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector",
		},
		"a Service of another namespace": {
			server: "{service: {name: a, namespace: b, port: 80}}",
			want:   "spec.origin.servers[0].service: Forbidden",
		},
		"the credentials of machines": {
			edit: func(s *v1alpha1.CacheNodeSpec) { s.Origin.Servers[0].Host = new("169.254.169.254") },
			want: "spec.origin.servers[0].host: Forbidden",
		},
		"an address as nginx alone reads it": {
			edit: func(s *v1alpha1.CacheNodeSpec) { s.Origin.Servers[0].Host = new("0127.0.0.1") },
			want: "spec.origin.servers[0].host: Invalid value",
		},
		"the memory tier's name": {
			edit: func(s *v1alpha1.CacheNodeSpec) { s.Disks[0].Name = "memory" },
			want: "spec.disks[0].name: Forbidden",
		},
		"the operator's own class": {
			edit: func(s *v1alpha1.CacheNodeSpec) {
				s.Disks[0].Name, s.Disks[0].StorageClassName = "disk2", new(naming.LocalClass)
			},
			want: "spec.disks[0].storageClassName: Forbidden",
		},
	}
	restConfig := apiserver.Start(t)
	before := startOperator(t, restConfig, anythingGoes)
	before.join("node-1")
	restore := withoutRules(t, before.client, naming.LocalClass, "memory is what the memory tier is called")
	cacheNodes, sets := map[string]*v1alpha1.CacheNode{}, map[string]*appsv1.StatefulSet{}
	configs := map[string]*corev1.ConfigMap{}
	for name, tt := range tests {
		cacheNode := before.create(fmt.Sprintf("apiVersion: cachenode.io/v1alpha1\nkind: CacheNode\n"+
			"metadata: {name: a%d, namespace: default}\n"+
			"spec:\n  disks: [%s]\n  origin: {servers: [%s]}\n  pod: {%s}\n",
			len(cacheNodes), cmp.Or(tt.disk, "{name: disk1, size: 1Gi}"), cmp.Or(tt.server, "{host: a.example.com}"), tt.pod))
		before.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
		set := &appsv1.StatefulSet{}
		set.Name, set.Namespace = cacheNode.Name, cacheNode.Namespace
		before.get(set)
		cacheNodes[name], sets[name], configs[name] = cacheNode, set, configMap(cacheNode)
		before.get(configs[name])
	}
	volumes := before.volumes()
	if len(volumes) != 2 {
		t.Fatalf("%d volumes, want 2", len(volumes))
	}
	before.stop()
	for name, tt := range tests {
		if tt.edit != nil {
			before.edit(cacheNodes[name], tt.edit)
		}
	}
	restore()

	after := startOperator(t, restConfig)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			after.t = t
			after.becomes(cacheNodes[name], status.FailedStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidSpec)
			if text := describe(cacheNodes[name]); !strings.Contains(text, tt.want) {
				t.Errorf("want %q in%s", tt.want, text)
			}
			now := sets[name].DeepCopy()
			after.get(now)
			if now.Generation != sets[name].Generation || now.UID != sets[name].UID {
				t.Errorf("the StatefulSet is another: generation %d, was %d", now.Generation, sets[name].Generation)
			}
			want := maps.Clone(configs[name].Data)
			if want[naming.OriginPolicyKey] != `{"namespaces":["*"]}` {
				t.Errorf("the policy of the earlier operator is %s", want[naming.OriginPolicyKey])
			}
			want[naming.OriginPolicyKey] = "{}"
			config := configMap(cacheNodes[name])
			after.get(config)
			if diff := gocmp.Diff(want, config.Data); diff != "" {
				t.Errorf("the ConfigMap (-want +got)\n%s", diff)
			}
		})
	}
	if left := after.volumes(); len(left) != len(volumes) {
		t.Errorf("%d volumes are left, want %d", len(left), len(volumes))
	}
}

// withoutRules removes some rules from the CRD, as in an older version without these rules: all rules whose message
// contains one of the words. It returns a function that restores the rules.
func withoutRules(t *testing.T, c client.Client, words ...string) (restore func()) {
	t.Helper()
	must(t, apiextensionsv1.AddToScheme(c.Scheme()))
	definition := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: "cachenodes.cachenode.io"}
	must(t, c.Get(context.Background(), key, definition))
	whole := definition.DeepCopy()
	removed := 0
	var walk func(*apiextensionsv1.JSONSchemaProps)
	walk = func(s *apiextensionsv1.JSONSchemaProps) {
		rules := s.XValidations[:0]
		for _, rule := range s.XValidations {
			if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(rule.Message, word) }) {
				removed++
				continue
			}
			rules = append(rules, rule)
		}
		s.XValidations = rules
		for name, property := range s.Properties {
			walk(&property)
			s.Properties[name] = property
		}
		if s.Items != nil && s.Items.Schema != nil {
			walk(s.Items.Schema)
		}
	}
	walk(definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if removed < len(words) {
		t.Fatalf("%d rules say one of %q", removed, words)
	}
	must(t, c.Update(context.Background(), definition))
	return func() {
		must(t, c.Get(context.Background(), key, definition))
		definition.Spec = whole.Spec
		must(t, c.Update(context.Background(), definition))
	}
}
