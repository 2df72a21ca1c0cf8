package validation_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

func TestPolicy(t *testing.T) {
	wide := validation.DefaultPolicy()
	wide.LocalPathPrefixes = []string{"/mnt", "/srv/cache"}
	wide.Images = append(wide.Images, "registry.example.com/cdn/")
	wide.PriorityClasses = []string{"cdn"}
	wide.OriginNamespaces = []string{"shop"}
	wide.DeniedTolerations = nil
	wide.PodAnnotations = []string{"prometheus.io/*", "example.com/team"}
	wide.ServiceAnnotations, wide.AntiAffinityNamespaces = []string{"*"}, []string{"shop"}
	wide.DeniedOriginRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	all := validation.DefaultPolicy()
	all.Images, all.OriginNamespaces, all.LocalPathPrefixes = []string{"*"}, []string{"*"}, nil
	all.AntiAffinityNamespaces = []string{"*"}
	strict := validation.DefaultPolicy()
	tests := map[string]struct {
		policy             validation.Policy
		path, server, pods string
		more               string // of the spec
		want               string // "" for none
	}{
		"what the samples have": {policy: strict, path: "/mnt/disk1"},
		"a folder elsewhere": {
			policy: strict, path: "/etc",
			want: "spec.disks[0].localPath.path: Forbidden: /etc must be a folder directly in /mnt",
		},
		"other people's data": {
			policy: strict, path: "/srv/disk1",
			want: "/srv/disk1 must be a folder directly in /mnt",
		},
		"a deeper folder": {
			policy: strict, path: "/mnt/disk1/evil",
			want: "/mnt/disk1/evil must be a folder directly in /mnt",
		},
		"the prefix itself":               {policy: strict, path: "/mnt", want: "must be a folder directly in /mnt"},
		"a prefix that only begins alike": {policy: strict, path: "/mntb/disk1", want: "must be a folder directly in /mnt"},
		"the second prefix":               {policy: wide, path: "/srv/cache/1"},
		"beside the second prefix": {
			policy: wide, path: "/srv/cacheb/1",
			want: "directly in /mnt or /srv/cache: mount",
		},
		"no prefix at all": {policy: all, path: "/mnt/disk1", want: "the operator allows no localPath"},

		"an image's short name": {policy: strict, pods: "{image: 'nginx:1.30'}"},
		"an image by digest": {
			policy: strict, pods: "{image: 'docker.io/library/nginx@sha256:" + strings.Repeat("0", 64) + "'}",
		},
		"an image of another user": {
			policy: strict, pods: "{image: 'mallory/nginx'}",
			want: "spec.pod.image: Forbidden: mallory/nginx is not from an allowed repository (docker.io/library/nginx",
		},
		"an image that begins alike": {
			policy: strict, pods: "{image: 'docker.io/library/nginx-evil:1'}",
			want: "spec.pod.image: Forbidden",
		},
		"an image of another registry": {
			policy: strict, pods: "{image: 'docker.io.example.com/library/nginx'}",
			want: "spec.pod.image: Forbidden",
		},
		"an image that is no reference": {
			policy: strict, pods: "{image: 'docker.io/library/nginx:1:2'}",
			want: "spec.pod.image: Forbidden",
		},
		"an image below a prefix": {policy: wide, pods: "{image: 'registry.example.com/cdn/nginx/patched:1'}"},
		"an image beside a prefix": {
			policy: wide, pods: "{image: 'registry.example.com/cdnb/nginx'}",
			want: "spec.pod.image: Forbidden",
		},
		"any image": {policy: all, pods: "{image: mallory/nginx}"},
		"a system priority": {
			policy: strict, pods: "{priorityClassName: system-node-critical}",
			want: "spec.pod.priorityClassName: Forbidden: system-node-critical is not allowed",
		},
		"an allowed priority":   {policy: wide, pods: "{priorityClassName: cdn}"},
		"a toleration of a key": {policy: strict, pods: "{tolerations: [{key: cdn, operator: Exists}]}"},
		"a toleration of everything": {
			policy: strict, pods: "{tolerations: [{key: a}, {operator: Exists}]}",
			want: "spec.pod.tolerations[1]: Forbidden: tolerates taints",
		},
		"of the control plane": {
			policy: strict, pods: "{tolerations: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]}",
			want: "spec.pod.tolerations[0]",
		},
		"of everything where that may be": {policy: wide, pods: "{tolerations: [{operator: Exists}]}"},

		"a cloud's identity": {
			policy: strict, pods: "{annotations: {iam.amazonaws.com/role: admin}}",
			want: "spec.pod.annotations[iam.amazonaws.com/role]: Forbidden: is not allowed: remove it, or add its key, " +
				"or its beginning and *, to the chart's allowedPodAnnotations (the operator's --allowed-pod-annotations)",
		},
		"another network": {
			policy: strict, pods: "{annotations: {k8s.v1.cni.cncf.io/networks: other}}",
			want: "spec.pod.annotations[k8s.v1.cni.cncf.io/networks]: Forbidden",
		},
		"an allowed annotation":        {policy: wide, pods: "{annotations: {example.com/team: cdn}}"},
		"annotations that begin alike": {policy: wide, pods: "{annotations: {prometheus.io/scrape: 'no'}}"},
		"one beside them": {
			policy: wide, pods: "{annotations: {prometheus.io.example.com/a: b}}", want: "spec.pod.annotations",
		},
		"an annotation of the Service": {
			policy: strict, more: "service: {annotations: {example.com/address: a}}",
			want: "spec.service.annotations[example.com/address]: Forbidden: is not allowed: remove it, or add its key, " +
				"or its beginning and *, to the chart's allowedServiceAnnotations (the operator's --allowed-service-annotations)",
		},
		"any annotation of the Service": {policy: wide, more: "service: {annotations: {example.com/address: a}}"},
		"apart from its own kind":       {policy: strict, pods: apart("namespaces: [tenant]")},
		"apart from all": {
			policy: strict, pods: apart("namespaceSelector: {}"),
			want: "spec.pod.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector: " +
				"Forbidden: would keep pods of other namespaces from the nodes",
		},
		"apart from another namespace": {
			policy: strict, pods: apart("namespaces: [tenant, shop]"),
			want: "requiredDuringSchedulingIgnoredDuringExecution[0].namespaces[1]: " +
				"Forbidden: would keep pods of namespace shop from the nodes",
		},
		"apart from an allowed namespace": {policy: wide, pods: apart("namespaces: [shop]")},
		"apart from any, where it may be": {policy: all, pods: apart("namespaceSelector: {}")},
		"rather apart from all": {
			policy: strict, pods: "{affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
				"[{weight: 1, podAffinityTerm: {topologyKey: zone, namespaceSelector: {}}}]}}}",
		},

		"a Service of the own namespace": {policy: strict, server: "{service: {name: web, namespace: tenant, port: 80}}"},
		"a Service of another namespace": {
			policy: strict, server: "{service: {name: web, namespace: shop, port: 80}}",
			want: "spec.origin.servers[0].service: Forbidden: Service web is in namespace shop, " +
				"and the operator allows Services of the CacheNode's own namespace, tenant",
		},
		"one of an allowed namespace": {policy: wide, server: "{service: {name: web, namespace: shop, port: 80}}"},
		"one of any namespace":        {policy: all, server: "{service: {name: web, namespace: bank, port: 80}}"},
		"its name": {
			policy: strict, server: "{host: web.shop.svc.cluster.local}",
			want: "Service web is in namespace shop",
		},
		"its name with a dot at the end": {
			policy: strict, server: "{host: web.shop.svc.cluster.local.}",
			want: "Service web is in namespace shop",
		},
		"a pod behind it": {
			policy: strict, server: "{host: web-0.web.shop.svc.cluster.local}",
			want: "Service web is in namespace shop",
		},
		"the own Service's name": {policy: strict, server: "{host: web.tenant.svc.cluster.local}"},
		"a pod's address as a name": {
			policy: all, server: "{host: 10-0-0-1.shop.pod.cluster.local}",
			want: "names no Service",
		},
		"the API server": {
			policy: all, server: "{service: {name: kubernetes, namespace: default, port: 443}}",
			want: "is the API server",
		},
		"the API server's name": {
			policy: all, server: "{host: kubernetes.default.svc.cluster.local}",
			want: "is the API server",
		},
		"a name elsewhere": {policy: strict, server: "{host: origin.example.com}"},
		"an address":       {policy: strict, server: "{host: 192.0.2.1}"},
		"the credentials of machines": {
			policy: all, server: "{host: 169.254.169.254}",
			want: "spec.origin.servers[0].host: Forbidden: 169.254.169.254 is in 169.254.0.0/16",
		},
		"the pod itself":                 {policy: all, server: "{host: 127.0.0.1}", want: "is in 127.0.0.0/8"},
		"the pod itself by another name": {policy: all, server: "{host: 0.0.0.0}", want: "is in 0.0.0.0/8"},
		"broadcast":                      {policy: all, server: "{host: 255.255.255.255}", want: "is in 224.0.0.0/3"},
		"a denied range":                 {policy: wide, server: "{host: 10.1.2.3}", want: "is in 10.0.0.0/8"},
		"an address as only nginx reads it": {
			policy: all, server: "{host: 0127.0.0.1}",
			want: "is no IPv4 address in its usual form",
		},
		"an address of three numbers": {
			policy: all, server: "{host: 127.0.1}",
			want: "is no IPv4 address in its usual form",
		},
		"an address and a dot": {policy: all, server: "{host: 127.0.0.1.}", want: "is in 127.0.0.0/8"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			disk, server, pods := "{name: disk1, size: 10Gi}", "{host: a.example.com}", "{}"
			if tt.path != "" {
				disk = "{name: disk1, size: 10Gi, localPath: {path: " + tt.path + "}}"
			}
			if tt.server != "" {
				server = tt.server
			}
			if tt.pods != "" {
				pods = tt.pods
			}
			cacheNode, _, err := schema.Decode([]byte(`
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: tenant}
spec:
  disks: [` + disk + `]
  origin: {servers: [` + server + `]}
  pod: ` + pods + `
  ` + tt.more))
			if err != nil {
				t.Fatal(err)
			}
			got := tt.policy.Violations(cacheNode).ToAggregate()
			if tt.want == "" && got != nil || tt.want != "" && (got == nil || !strings.Contains(got.Error(), tt.want)) {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}

// apart returns the field spec.pod with a required anti-affinity, as YAML. namespaces contains the fields that select
// the namespaces.
func apart(namespaces string) string {
	return "{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
		"[{topologyKey: kubernetes.io/hostname, labelSelector: {}, " + namespaces + "}]}}}"
}

// TestAllowsLocalPath checks that the policy itself refuses paths that the schema already refuses.
func TestAllowsLocalPath(t *testing.T) {
	p := validation.DefaultPolicy()
	for path, want := range map[string]bool{
		"/mnt/disk1": true, "/mnt/": false, "/mnt/.": false, "/mnt/..": false, "/mnt/../etc": false, "/mnt/disk1/": false,
		"/mnt/disk1/..": false, "/mnt//disk1": false, "mnt/disk1": false, "": false, "/": false,
	} {
		if got := p.AllowsLocalPath(path); got != want {
			t.Errorf("%q: got %t, want %t", path, got, want)
		}
	}
}

func TestPolicyCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		prefixes []string
		want     string
	}{
		"none":               {nil, ""},
		"two":                {[]string{"/mnt", "/srv/cache"}, ""},
		"twins":              {[]string{"/mnt/a", "/mnt/ab"}, ""},
		"one in another":     {[]string{"/mnt/disk1", "/mnt"}, "/mnt/disk1 lies in /mnt"},
		"the root":           {[]string{"/"}, "and not /"},
		"nothing":            {[]string{""}, "want an absolute path"},
		"a relative one":     {[]string{"mnt"}, "want an absolute path"},
		"one that goes back": {[]string{"/mnt/../etc"}, "want an absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			err := validation.Policy{LocalPathPrefixes: tt.prefixes}.Check()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
