package validate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/cli/output"
)

const good = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge}
spec:
  disks: [{name: disk1, size: 1Gi}]
  origin: {servers: [{host: origin.example.com, port: 80}]}
  hosts: [cdn.example.com]
`

func TestValidate(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "edge.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	bad := strings.NewReplacer("size: 1Gi", "size: 1Gi, media: Tape", "port: 80", "port: 0").Replace(good)
	for name, test := range map[string]struct {
		texts []string
		out   string
		errs  []string
	}{
		"valid":           {[]string{good}, "edge is valid", nil},
		"two errors":      {[]string{bad}, "", []string{"spec.disks[0].media", "spec.origin.servers[0].port"}},
		"one of two":      {[]string{good, bad}, "edge is valid", []string{"spec.disks[0].media"}},
		"no CacheNode":    {[]string{"apiVersion: apps/v1\nkind: Deployment"}, "", []string{"no CacheNode in it"}},
		"not even a YAML": {[]string{"{"}, "", []string{"yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			command := New()
			var out, stderr strings.Builder
			command.SetOut(&out)
			command.SetErr(&stderr)
			command.SilenceUsage, command.SilenceErrors = true, true
			var args []string
			for _, text := range test.texts {
				args = append(args, "-f", write(text))
			}
			command.SetArgs(args)
			err := command.Execute()
			if (err != nil) != (len(test.errs) > 0) || !strings.Contains(out.String(), test.out) {
				t.Fatalf("error %v, output %q; want %q and errors about %v", err, out.String(), test.out, test.errs)
			}
			for _, want := range test.errs {
				if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "edge.yaml: ") {
					t.Errorf("no file and %q in %q", want, err)
				}
			}
		})
	}
}

// TestForPrograms checks the JSON and the exit code.
func TestForPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	local := file("a.yaml", strings.Replace(good, "size: 1Gi", "size: 1Gi, localPath: {path: /srv/a}", 1))
	bad := file("b.yaml", strings.Replace(good, "size: 1Gi", "size: 1Gi, media: Tape", 1))
	command := New()
	var out strings.Builder
	command.SetOut(&out)
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetArgs([]string{"-f", local, "-f", bad, "-o", "json"})
	if err := command.Execute(); !errors.Is(err, output.Exit(1)) {
		t.Errorf("it ends with %v, want exit code 1", err)
	}
	var got []result
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].File != local || len(got[0].Errors) > 0 || len(got[0].CacheNodes) != 1 ||
		got[0].CacheNodes[0].Name != "edge" || len(got[0].CacheNodes[0].Warnings) != 1 ||
		len(got[1].Errors) != 1 || !strings.Contains(got[1].Errors[0], "spec.disks[0].media") {
		t.Errorf("it says\n%s", &out)
	}
}

// TestWarnings checks CacheNodes that are valid, but for which the verb prints a warning: one that an operator with
// default flags does not allow, and one that an operator without spec.gateways does not accept.
func TestWarnings(t *testing.T) {
	for want, text := range map[string]string{
		"by the operator's default policy: spec.disks[0].localPath.path: Forbidden": strings.Replace(
			good, "size: 1Gi", "size: 1Gi, localPath: {path: /srv/a}", 1),
		"set it before a rollback": fleet,
	} {
		file := filepath.Join(t.TempDir(), "edge.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		command := New()
		var out, stderr strings.Builder
		command.SetOut(&out)
		command.SetErr(&stderr)
		command.SetArgs([]string{"-f", file})
		if err := command.Execute(); err != nil || strings.Count(stderr.String(), want) != 1 {
			t.Errorf("error %v, warnings %q, want %q", err, stderr.String(), want)
		}
	}
}

const fleet = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: caches}
spec:
  disks: [{name: disk1, size: 1Gi}]
  gateways: {allowedNamespaces: {from: Selector, selector: {matchLabels: {edge: "yes"}}}}
`

const aRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: team-a}
spec:
  gatewayClassName: edge
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: team-a}
spec:
  parentRefs: [{name: shop}]
  rules: [{backendRefs: [{name: shop, port: 80}]}]
`

// TestRoutes checks the Gateways and routes in a folder beside the file with the CacheNode.
func TestRoutes(t *testing.T) {
	t.Parallel()
	const isValid = "routes.yaml: Gateway team-a/shop is valid"
	const usual = "GatewayClass edge is not in the files"
	for name, test := range map[string]struct{ route, out, warning, err string }{
		"valid": {aRoute, "routes.yaml: HTTPRoute team-a/shop is valid", "Service team-a/shop is not in the files", ""},
		"labels that are not known": {
			aRoute, isValid, "the labels of the namespaces team-a are not in the files", "",
		},
		"labels that are known": {
			aRoute + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n", "edge is valid", usual,
			"NamespaceNotAllowed: CacheNode caches/edge serves no Gateways of namespace team-a, " +
				`but of namespaces with the labels "edge=yes"`,
		},
		"a Service without the port": {
			aRoute + "---\napiVersion: v1\nkind: Service\nmetadata: {name: shop, namespace: team-a}\n" +
				"spec: {ports: [{port: 81}]}\n",
			isValid, usual, "HTTPRoute team-a/shop: parent shop: BackendNotFound: spec.rules[0].backendRefs[0]: " +
				"Service team-a/shop has no port 80",
		},
		"a filter that is not supported": {
			strings.Replace(aRoute, "[{backendRefs", "[{filters: [{type: CORS, cors: {}}], backendRefs", 1), isValid, usual,
			"spec.rules[0].filters[0].type: CORS is not supported",
		},
		"a field that does not exist": {
			strings.Replace(aRoute, "rules:", "rulez:", 1), "edge is valid", "", "HTTPRoute: error unmarshaling JSON",
		},
		"a path that the API server refuses": {
			strings.Replace(aRoute, "[{backendRefs", "[{matches: [{path: {value: a}}], backendRefs", 1), "edge is valid", "",
			"HTTPRoute team-a/shop: spec.rules[0].matches[0].path",
		},
		"a method and a host that the API server refuses": {
			strings.Replace(aRoute, "rules: [{", "hostnames: [Bad3_.example]\n  rules: [{matches: [{method: get}], ", 1),
			"edge is valid", "", `HTTPRoute team-a/shop: spec.rules[0].matches[0].method: Unsupported value: "get"`,
		},
		"a name that the API server refuses": {
			strings.Replace(aRoute, "metadata: {name: shop,", "metadata: {name: Shop,", 1), "edge is valid", "",
			"Gateway team-a/Shop: metadata.name: Invalid value",
		},
		"a port that is missing": {
			strings.Replace(aRoute, ", port: 80}]}]", "}]}]", 1), "edge is valid", "", "Must have port for Service reference",
		},
		"an older version of the API": {
			strings.ReplaceAll(aRoute, "k8s.io/v1\n", "k8s.io/v1beta1\n"), "HTTPRoute team-a/shop is valid", usual, "",
		},
		"a kind that is not supported": {
			aRoute + "---\napiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {name: a}\n",
			"HTTPRoute team-a/shop is valid", "GRPCRoute of gateway.networking.k8s.io is not supported", "",
		},
		"a field that has no effect": {
			strings.Replace(aRoute, "listeners:", "infrastructure: {labels: {a: b}}\n  listeners:", 1), isValid,
			"Gateway team-a/shop: UnsupportedField: spec.infrastructure.labels: not supported, and has no effect", "",
		},
		"a Gateway that is not in the files": {
			strings.Replace(aRoute, "parentRefs: [{name: shop}]", "parentRefs: [{name: other}]", 1),
			"routes.yaml: HTTPRoute team-a/shop is valid", "HTTPRoute team-a/shop: the files contain no Gateway", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for path, text := range map[string]string{"edge.yaml": fleet, "routes/routes.yaml": test.route} {
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			command := New()
			var out, stderr strings.Builder
			command.SetOut(&out)
			command.SetErr(&stderr)
			command.SilenceUsage, command.SilenceErrors = true, true
			command.SetArgs([]string{"-f", filepath.Join(dir, "edge.yaml"), "-f", filepath.Join(dir, "routes")})
			err := command.Execute()
			got := ""
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(out.String(), test.out) || !strings.Contains(stderr.String(), test.warning) ||
				!strings.Contains(got, test.err) || (got == "") != (test.err == "") {
				t.Errorf("output %q, warnings %q, error %q; want %q, %q, %q",
					out.String(), stderr.String(), got, test.out, test.warning, test.err)
			}
		})
	}
}
