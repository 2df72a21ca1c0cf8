package render

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const edge = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge}
spec:
  disks: [{name: disk1, size: 10Gi}]
  origin: {servers: [{service: {name: origin, port: 80}}]}
  hosts: [www.example.com]
`

func run(t *testing.T, input string, args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := New()
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetArgs(args)
	command.SetIn(strings.NewReader(input))
	command.SetOut(&stdout)
	command.SetErr(&stderr)
	err = command.Execute()
	return stdout.String(), stderr.String(), err
}

func TestRender(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edge.yaml")
	if err := os.WriteFile(file, []byte(edge), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile, errOut, err := run(t, "", "-f", file)
	if err != nil || errOut != "" || !strings.Contains(fromFile, "server origin.default.svc.cluster.local:80 resolve;") {
		t.Errorf("from a file: error %v, %q\n%s", err, errOut, fromFile)
	}
	fromStdin, _, err := run(t, "kind: Service\napiVersion: v1\n---\n"+edge, "-f", "-")
	if diff := cmp.Diff(fromFile, fromStdin); err != nil || diff != "" {
		t.Errorf("from standard input: error %v\n%s", err, diff)
	}
	namespaced, _, err := run(t, edge,
		"-f", "-", "-n", "media", "--cluster-domain", "k8s.example")
	if err != nil || !strings.Contains(namespaced, "server origin.media.svc.k8s.example:80 resolve;") {
		t.Errorf("with flags: error %v\n%s", err, namespaced)
	}
	objects, _, err := run(t, edge, "-f", "-", "-o", "yaml")
	for _, kind := range []string{"ConfigMap", "Service", "PodDisruptionBudget", "StatefulSet"} {
		if err != nil || !strings.Contains(objects, "\nkind: "+kind+"\n") {
			t.Errorf("-o yaml: error %v, want a %s in\n%s", err, kind, objects)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	tests := map[string]struct {
		input string
		args  []string
		want  []string
	}{
		"the schema": {strings.Replace(edge, "10Gi", "ten", 1), nil, []string{"spec.disks[0].size: Invalid value"}},
		"a rule": {
			strings.Replace(edge, "service: {name: origin, port: 80}", "host: origin", 1), nil,
			[]string{"spec.origin.servers[0].host: Invalid value: \"origin\": host: must be a fully qualified"},
		},
		"a sum": {
			edge + "  pod: {resources: {limits: {memory: 1Mi}}}\n", nil,
			[]string{"spec.pod.resources.limits[memory]"},
		},
		"two at once": {
			edge + "  replicas: -1\n  listen: {port: 80}\n", nil,
			[]string{"spec.replicas", "spec.listen.port"},
		},
		"an unknown field":  {edge + "  replica: 1\n", nil, []string{"spec.replica: Forbidden: no such field"}},
		"a field twice":     {edge + "  hosts: [a]\n", nil, []string{"already set"}},
		"no CacheNode":      {"apiVersion: v1\nkind: Service\n", nil, []string{"no CacheNode in it"}},
		"another version":   {strings.Replace(edge, "v1alpha1", "v9", 1), nil, []string{`"cachenode.io/v9"`}},
		"no YAML":           {"{", nil, []string{"yaml"}},
		"an unknown output": {edge, []string{"-o", "json"}, []string{"want conf or yaml"}},
		"a file not there":  {"", []string{"-f", "/nonexistent"}, []string{"/nonexistent"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, _, err := run(t, tt.input, append([]string{"-f", "-"}, tt.args...)...)
			if out != "" {
				t.Errorf("standard output has %q", out)
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v, want %q", err, want)
				}
			}
		})
	}
}

func TestRenderWarns(t *testing.T) {
	_, errOut, err := run(t, strings.Replace(edge, "  hosts: [www.example.com]\n", "", 1), "-f", "-")
	if err != nil || !strings.Contains(errOut, "warning: spec.hosts is empty") {
		t.Errorf("error %v, %q", err, errOut)
	}
	https := strings.Replace(edge, "origin: {servers: [{service: {name: origin, port: 80}}]}",
		"origin: {scheme: https, servers: [{host: a.example.com}], tls: {caBundle: {secret: {name: ca}}}}", 1)
	out, errOut, err := run(t, https, "-f", "-")
	if err != nil || !strings.Contains(errOut, "give --ca-bundle") ||
		!strings.Contains(out, "proxy_ssl_trusted_certificate /run/cachenode/ca-") {
		t.Errorf("error %v, %q\n%s", err, errOut, out)
	}
}

const fleet = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge}
spec:
  disks: [{name: disk1, size: 10Gi}]
  gateways: {}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop}
spec:
  gatewayClassName: edge
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: tcp, port: 81, protocol: TCP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: shop}]
  hostnames: [shop.example.com]
  rules: [{backendRefs: [{name: shop, port: 8080}]}]
`

// TestRoutes checks that the nginx.conf contains the routes of the Gateways in the files, and that it is always the
// same.
func TestRoutes(t *testing.T) {
	t.Parallel()
	out, errOut, err := run(t, fleet, "-f", "-")
	for _, want := range []string{
		"listen 20000 default_server", "shop.example.com shop.example.com:20000;",
		"server shop.default.svc.cluster.local:8080 resolve;",
	} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("error %v, no %q in\n%s", err, want, out)
		}
	}
	if want := "warning: Gateway default/shop: listener tcp: UnsupportedProtocol"; !strings.Contains(errOut, want) {
		t.Errorf("no %q in %q", want, errOut)
	}
	if again, _, _ := run(t, fleet, "-f", "-"); again != out {
		t.Error("rendered again, the nginx.conf is another one")
	}
}
