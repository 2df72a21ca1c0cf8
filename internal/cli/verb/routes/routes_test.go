package routes

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/cli/output"
)

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
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: more, port: 8080, protocol: HTTP, hostname: b.example.com}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: shop}]
  hostnames: [shop.example.com, b.example.com]
  rules:
  - backendRefs: [{name: shop, port: 8080}, {name: new, port: 80, weight: 3}]
  - matches:
    - path: {type: PathPrefix, value: /api}
      method: GET
      headers: [{name: X-Version, value: "2"}]
      queryParams: [{name: page, value: "1"}]
  - matches: [{path: {type: Exact, value: /old}}]
    filters: [{type: RequestRedirect, requestRedirect: {hostname: new.example.com, port: 8443, statusCode: 301}}]
`

func run(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "edge.yaml")
	if err := os.WriteFile(path, []byte(fleet), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	command := New()
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetArgs(append([]string{"edge", "-f", path}, args...))
	command.SetOut(&stdout)
	command.SetErr(&stderr)
	err = command.Execute()
	return stdout.String(), stderr.String(), err
}

// words returns the lines of a text with single spaces between the words.
func words(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	const both = "default/shop:8080 (weight 1), default/new:80 (weight 3)"
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"all": {nil, []string{
			"GATEWAY PORT HOST PATH CONDITIONS ROUTE RULE TO",
			"default/shop 80 shop.example.com /old default/shop 2 301, SCHEME://new.example.com:8443",
			"default/shop 80 shop.example.com /api/* GET, x-version: 2, ?page=1 default/shop 1 " +
				"status 500: the rule has no backend",
			"default/shop 80 shop.example.com /* default/shop 0 " + both,
			"default/shop 80 b.example.com /old default/shop 2 301, SCHEME://new.example.com:8443",
			"default/shop 80 b.example.com /api/* GET, x-version: 2, ?page=1 default/shop 1 " +
				"status 500: the rule has no backend",
			"default/shop 80 b.example.com /* default/shop 0 " + both,
			"default/shop 8080 b.example.com /old default/shop 2 301, SCHEME://new.example.com:8443",
			"default/shop 8080 b.example.com /api/* GET, x-version: 2, ?page=1 default/shop 1 " +
				"status 500: the rule has no backend",
			"default/shop 8080 b.example.com /* default/shop 0 " + both,
		}},
		"a URL": {[]string{"--url", "http://SHOP.example.com./a/../old"}, []string{
			"GATEWAY PORT HOST PATH CONDITIONS ROUTE RULE TO",
			"default/shop 80 shop.example.com /old default/shop 2 301, SCHEME://new.example.com:8443",
		}},
		"another port": {[]string{"--url", "http://b.example.com:8080/a"}, []string{
			"GATEWAY PORT HOST PATH CONDITIONS ROUTE RULE TO",
			"default/shop 8080 b.example.com /* default/shop 0 " + both,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errOut, err := run(t, tt.args...)
			if diff := cmp.Diff(tt.want, words(out)); err != nil || diff != "" {
				t.Errorf("error %v, (-want +got):\n%s", err, diff)
			}
			if want := "warning: Service default/new is not in the files"; !strings.Contains(errOut, want) {
				t.Errorf("no %q in %q", want, errOut)
			}
		})
	}
	for url, want := range map[string]string{
		"http://other.example.com/": "no route", "ftp://shop.example.com/": "want a URL", "/a": "want a URL",
		"http://shop.example.com:81/": "no route", "https://shop.example.com/": "no route",
	} {
		if _, _, err := run(t, "--url", url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--url %s: error %v, want %q", url, err, want)
		}
	}
	if out, _, err := run(t, "-o", "json"); err != nil || !strings.Contains(out, `"gateway": "default/shop"`) {
		t.Errorf("-o json: error %v, %s", err, out)
	}
	out, _, err := run(t, "-o", "json", "--url", "http://other.example.com/")
	if !errors.Is(err, output.Exit(1)) || out != "[]\n" {
		t.Errorf("-o json without a route: error %v, %q", err, out)
	}
}
