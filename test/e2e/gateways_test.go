package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/test/client/report"
)

// theFleet serves the Gateways of all namespaces, and nothing else.
const theFleet = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge}
spec:
  replicas: 2
  disks:
  - {name: disk1, size: 1Gi, storageClassName: local-disks}
  - {name: disk2, size: 1Gi, storageClassName: local-disks}
  cache: {nodeHeader: true}
  gateways: {allowedNamespaces: {from: All}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: edge}
spec:
  controllerName: cachenode.io/gateway
  parametersRef: {group: cachenode.io, kind: CacheNode, name: edge, namespace: e2e}
`

// aTeam is a namespace with a Gateway and a route to a Service in the tests' namespace. %[1]s is the name of the team,
// and %[2]s is the name of the Service.
const aTeam = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: %[1]s, namespace: %[1]s}
spec:
  gatewayClassName: edge
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: web}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s, namespace: %[1]s}
spec:
  parentRefs: [{name: %[1]s}]
  hostnames: [www.example.com]
  rules: [{backendRefs: [{name: %[2]s, namespace: e2e, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: own, namespace: %[1]s}
spec:
  parentRefs: [{name: %[1]s}]
  hostnames: [own.example.com]
  rules: [{backendRefs: [{name: own, port: 80}]}]
---
apiVersion: v1
kind: Service
metadata: {name: own, namespace: %[1]s}
spec: {ports: [{name: http, port: 80, targetPort: 8080}]}
`

// endpoints make the pod of the origin the endpoint of a team's own Service. %[1]s is the address of the pod.
const endpoints = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: own, labels: {kubernetes.io/service-name: own}}
addressType: IPv4
endpoints: [{addresses: ["%[1]s"]}]
ports: [{name: http, port: 8080}]
`

// aGrant lets the routes of a team refer to the origin.
const aGrant = `
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: %[1]s}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: %[1]s}]
  to: [{group: "", kind: Service}]
`

// headless is a Service whose name leads to the pods of the origin, at another port.
const headless = `
apiVersion: v1
kind: Service
metadata: {name: headless}
spec: {clusterIP: None, selector: {app: origin}, ports: [{name: http, port: 80, targetPort: http}]}
`

// TestGateways checks that two teams serve their routes from one fleet, each for itself, and that no pod is replaced
// for them.
func TestGateways(t *testing.T) {
	s := newSuite(t)
	installGatewayAPI(t)
	t.Cleanup(func() {
		kubectl(t, "", "delete", "namespaces", "team-a", "team-b", "--ignore-not-found", "--wait")
		kubectl(t, "", "delete", "gatewayclass", "edge", "--ignore-not-found")
		kubectl(t, "", "delete", "referencegrants", "--all")
		kubectl(t, "", "delete", "service", "headless", "--ignore-not-found")
	})
	s.starts(t, theFleet)
	before := uids(s.cachePods(t))
	s.inOrder(t, []step{
		{"two teams share the fleet, and not their objects", sharesFleet},
		{"an edit that moves a route to a new Service fails no request", movesRoute},
		{"a policy of one team changes nothing for the other", followsPolicy},
		{"HTTPS with certificates of each team", servesHTTPS},
		{"a Gateway goes, and the other stays", losesGateway},
	})
	if diff := cmp.Diff(before, uids(s.cachePods(t))); diff != "" {
		t.Errorf("pods were replaced or restarted (-before +after)\n%s", diff)
	}
}

// installGatewayAPI installs the CustomResourceDefinitions of the Gateway API, in the version of go.mod.
func installGatewayAPI(t *testing.T) {
	t.Helper()
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	must(t, err)
	for _, kind := range []string{"gatewayclasses", "gateways", "httproutes", "referencegrants"} {
		kubectl(t, "", "apply", "--server-side", "-f", filepath.Join(
			strings.TrimSpace(string(folder)), "config/crd/standard/gateway.networking.k8s.io_"+kind+".yaml"))
	}
}

// gatewayIs waits until a condition of the Gateway of a team is as wanted, and returns the address of the Gateway.
func gatewayIs(t *testing.T, team, condition, want string) string {
	t.Helper()
	within(t, 3*time.Minute, func() string { // the operator starts again when the kinds are there
		got := kubectl(t, "", "get", "gateway", team, "-n", team, "-o",
			`jsonpath={.status.conditions[?(@.type=="`+condition+`")].status}`)
		if got != want {
			return fmt.Sprintf("%s of Gateway %s is %q\n%s", condition, team, got,
				kubectl(t, "", "get", "gateway,httproute", "-n", team, "-o", "jsonpath={.items[*].status}"))
		}
		return ""
	})
	return kubectl(t, "", "get", "gateway", team, "-n", team, "-o", "jsonpath={.status.addresses[0].value}")
}

// routesAreProgrammed waits until the statuses of a team's routes say that all ready pods serve them.
func routesAreProgrammed(t *testing.T, team string) {
	t.Helper()
	within(t, time.Minute, func() string {
		got := kubectl(t, "", "get", "httproutes", "-n", team, "-o",
			`jsonpath={.items[*].status.parents[*].conditions[?(@.type=="cachenode.io/Programmed")].status}`)
		if got == "" || strings.Contains(got, "False") {
			return kubectl(t, "", "get", "httproutes", "-n", team, "-o", "jsonpath={.items[*].status}")
		}
		return ""
	})
}

// fetchFrom fetches objects that the origin marks as fresh through an address of a Gateway, by HTTP unless the address
// has a scheme. tag is a part of their paths.
func (s *suite) fetchFrom(t *testing.T, address, host, tag string) []report.Result {
	t.Helper()
	var paths []string
	for i := range 50 {
		paths = append(paths, fmt.Sprintf("/versions/%s/%d", tag, i))
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	return s.fetch(t, 0, paths, "-base", address, "-host", host)
}

// answers waits until all pods answer requests for a host at an address of a Gateway. A pod may get a new revision a
// moment later than others.
func (s *suite) answers(t *testing.T, address, host string) {
	t.Helper()
	within(t, time.Minute, func() string {
		if got := caches(s.fetchFrom(t, address, host, "probe")); got["error"] > 0 {
			return fmt.Sprintf("%s at %s: %v", host, address, got)
		}
		return ""
	})
}

// caches counts the answers of the cache. An error counts as the answer "error".
func caches(results []report.Result) map[string]int {
	counts := map[string]int{}
	for _, r := range results {
		if r.Error != "" {
			r.Cache = "error"
		}
		counts[r.Cache]++
	}
	return counts
}

func sharesFleet(t *testing.T, s *suite) {
	kubectl(t, fmt.Sprintf(aGrant, "team-a")+"---"+headless, "apply", "-f", "-")
	kubectl(t, fmt.Sprintf(aTeam, "team-a", "origin"), "apply", "-n", "team-a", "-f", "-")
	kubectl(t, fmt.Sprintf(aTeam, "team-b", "headless"), "apply", "-n", "team-b", "-f", "-")
	a, b := gatewayIs(t, "team-a", "Programmed", "True"), gatewayIs(t, "team-b", "Programmed", "True")
	if a == b {
		t.Fatalf("both Gateways have the address %s", a)
	}
	routesAreProgrammed(t, "team-a")
	if diff := cmp.Diff(map[string]int{"MISS": 50}, caches(s.fetchFrom(t, a, "www.example.com", "team"))); diff != "" {
		t.Errorf("the first requests of team A (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"HIT": 50}, caches(s.fetchFrom(t, a, "www.example.com", "team"))); diff != "" {
		t.Errorf("the next requests of team A (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"error": 50}, caches(s.fetchFrom(t, b, "www.example.com", "team"))); diff != "" {
		t.Errorf("team B without a ReferenceGrant (-want +got)\n%s", diff)
	}
	kubectl(t, fmt.Sprintf(aGrant, "team-b"), "apply", "-f", "-")
	s.answers(t, b, "www.example.com")
	if diff := cmp.Diff(map[string]int{"MISS": 50}, caches(s.fetchFrom(t, b, "www.example.com", "team"))); diff != "" {
		t.Errorf("the same URLs of team B (-want +got)\n%s", diff)
	}
	origin := kubectl(t, "", "get", "pods", "-l", "app=origin", "-o", "jsonpath={.items[0].status.podIP}")
	kubectl(t, fmt.Sprintf(endpoints, origin), "apply", "-n", "team-b", "-f", "-")
	s.answers(t, b, "own.example.com")
}

// another is another Service for the pods of the origin.
const another = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: origin}, ports: [{name: http, port: 80, targetPort: http}]}
---
`

// movesRoute moves a route from one Service to another and back, while clients request objects that are not stored.
func movesRoute(t *testing.T, s *suite) {
	services := []string{"second", "third"}
	for _, name := range services {
		kubectl(t, fmt.Sprintf(another, name), "apply", "-f", "-")
		t.Cleanup(func() { kubectl(t, "", "delete", "service", name, "--ignore-not-found") })
	}
	var paths []string
	for i := range 50 {
		paths = append(paths, fmt.Sprintf("/objects/300/moved-%d", i))
	}
	base := "http://" + gatewayIs(t, "team-a", "Programmed", "True")
	load := s.loadAt(t, base, "www.example.com", paths)
	for _, name := range append(services, "origin") {
		patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/rules/0/backendRefs/0/name", "value": %q}]`, name)
		kubectl(t, "", "patch", "httproute", "team-a", "-n", "team-a", "--type", "json", "-p", patch)
		within(t, time.Minute, func() string { // the operator may not have seen the edit yet
			got := kubectl(t, "", "get", "httproute", "team-a", "-n", "team-a", "-o", `jsonpath={.metadata.generation} `+
				`{.status.parents[0].conditions[?(@.type=="cachenode.io/Programmed")].observedGeneration} `+
				`{.status.parents[0].conditions[?(@.type=="cachenode.io/Programmed")].status}`)
			if words := strings.Fields(got); len(words) != 3 || words[0] != words[1] || words[2] != "True" {
				return got
			}
			return ""
		})
		load.more(t, 200)
	}
	summaries := load.end()
	checkLoad(t, summaries)
	for _, summary := range summaries {
		if summary.Cache["MISS"] < 100 {
			t.Errorf("only %d requests of %d reached the Services", summary.Cache["MISS"], summary.Requests)
		}
	}
}

func losesGateway(t *testing.T, s *suite) {
	kubectl(t, "", "delete", "gateway", "team-a", "-n", "team-a", "--wait")
	within(t, time.Minute, func() string {
		return strings.TrimSpace(kubectl(t, "", "get", "services", "-o", "name",
			"-l", "gateway.networking.k8s.io/gateway-name=team-a"))
	})
	s.current(t)
	b := gatewayIs(t, "team-b", "Programmed", "True")
	if diff := cmp.Diff(map[string]int{"HIT": 50}, caches(s.fetchFrom(t, b, "www.example.com", "team"))); diff != "" {
		t.Errorf("team B, without the Gateway of team A (-want +got)\n%s", diff)
	}
}

// servesHTTPS checks that each team's own certificate is used, that a renewed one is used too, and that a request over
// HTTPS gets the same objects as one over HTTP.
func servesHTTPS(t *testing.T, s *suite) {
	// presented waits until all answers of a team's Gateway come with a certificate.
	presented := func(team, want string) {
		t.Helper()
		address := "https://" + gatewayIs(t, team, "Programmed", "True")
		within(t, 3*time.Minute, func() string { // the kubelet may take a minute and a half for a renewed Secret
			for _, r := range s.fetchFrom(t, address, "www.example.com", "team") {
				if r.Certificate != want || r.Cache != "HIT" {
					return fmt.Sprintf("the certificate is of %q, want %q (%s, %s)", r.Certificate, want, r.Cache, r.Error)
				}
			}
			return ""
		})
	}
	certify(t, "team-a", "first of team A")
	certify(t, "team-b", "first of team B")
	presented("team-a", "first of team A")
	presented("team-b", "first of team B")
	certify(t, "team-a", "second of team A")
	presented("team-a", "second of team A")
	presented("team-b", "first of team B")
}

// certify writes a new certificate with a common name to the Secret that a team's Gateway names.
func certify(t *testing.T, team, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	secret, err := yaml.Marshal(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
			"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		},
	})
	must(t, err)
	kubectl(t, string(secret), "apply", "-n", team, "-f", "-")
}
