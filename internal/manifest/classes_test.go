package manifest_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/config/crd"
	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/edit"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/manifest"
	"github.com/cachenode/cachenode-operator/internal/revision"
)

// The classes of changes, as docs/concepts/changes.md names them.
const (
	reload   = "reload"
	newPods  = "new pods"
	object   = "object"
	operator = "operator"
	refused  = "refused"
)

// changes contains, for each field of the spec, a value that differs from the base spec. If a field needs other fields,
// the base spec contains them.
var changes = map[string]string{
	"cache.backgroundUpdate": "true", "cache.staleIfError": "9s", "cache.staleWhileRevalidate": "9s",
	"cache.key":            "[URI, Host]",
	"cache.bypass.cookies": "[a]", "cache.bypass.headers": "[a]", "cache.query.drop": "[a]", "cache.query.keep": "[a]",
	"cache.ignore": "[Private]", "cache.ttl.status": "[418]", "cache.ttl.force": "9s", "cache.ttl.default": "9s",
	"cache.ttl.min": "9s", "cache.ttl.max": "9s",
	"cache.slice.size":                    "2Mi",
	"gateways.allowedNamespaces.from":     "All",
	"gateways.allowedNamespaces.selector": "{matchLabels: {a: b}}",
	"gateways.maxRoutes":                  "9", "gateways.maxRoutesPerNamespace": "9",
	"gateways.ports.from": "10000", "gateways.ports.to": "10999",
	"headers.request.remove": "[a]", "headers.request.set.name": "X-A", "headers.request.set.value": "9",
	"headers.response.remove": "[a]", "headers.response.set.name": "X-A", "headers.response.set.value": "9",
	"listen.clientAddress.source": "ProxyProtocol", "listen.clientAddress.trustedCIDRs": "[10.0.0.0/8]",
	"listen.gzip.enabled": "false", "listen.gzip.level": "9", "listen.gzip.minSize": "9Ki", "listen.gzip.types": "[a/b]",
	"listen.tls.http2": "false", "listen.tls.http3": "true", "logs.format": "JSON",
	"cache.lock.age": "9s", "cache.lock.enabled": "false", "cache.lock.timeout": "9s",
	"cache.methods": "[GET]", "cache.minUses": "3", "cache.nodeHeader": "true", "cache.revalidate": "false",
	"cache.statusHeaders": "false", "cache.useStale": "[Error]",
	"cache.valid.for": "9s", "cache.valid.status": "[418]",
	"disks.cache.inactive": "9h", "disks.cache.keysZone": "11Mi", "disks.cache.maxSize": "2Gi",
	"disks.cache.minFree": "1Gi", "disks.foreignCache": "Empty",
	"disks.health.device": "Shared", "disks.health.failures": "9", "disks.health.interval": "9s",
	"disks.health.minFree": "9Mi", "disks.health.minFreeInodes": "9",
	"disks.health.successes": "9", "disks.health.timeout": "9s",
	"disks.media": "NVMe", "disks.threadPool.maxQueue": "99999", "disks.threadPool.threads": "9", "disks.weight": "9",
	"disks.storageClassName": "", "disks.localPath.path": "", // admission refuses a change: test/cel
	"disks.name": "disk9", "disks.size": "11Gi", "disks.localPath.requireMountPoint": "false",
	"disruption.diskLossAfter": "9m", "disruption.nodeLossAfter": "9m",
	"disruption.maxUnavailable": "9", "hosts": "[other.example.com]",
	"io.asyncWrite": "false", "io.mode": "Direct", "io.workersPerCPU": "2", "io.readAhead": "2Mi",
	"io.sendfileMaxChunk": "1Mi", "io.sendfile": "true",
	"listen.bodyTimeout": "9s", "listen.headerTimeout": "9s",
	"listen.maxConnections": "9999", "listen.maxConnectionsPerClient": "9",
	"listen.port": "9999", "listen.reusePort": "false", "listen.tls.port": "9443", "listen.tls.secretName": "other",
	"memoryTier.enabled": "false", "memoryTier.size": "128Mi", "memoryTier.minUses": "9",
	"memoryTier.maxObjectSize": "2Mi", "memoryTier.inactive": "9s", "memoryTier.maxExtraAge": "9s",
	"logs.access": "Stdout", "logs.level": "Debug",
	"monitoring.requestSampling": "9", "origin.fallbackConcurrency": "9", "origin.hostHeader": "other.example.com",
	"origin.keepalive.connections": "9", "origin.keepalive.requests": "9", "origin.keepalive.timeout": "9s",
	"origin.retries.timeout": "9s", "origin.retries.tries": "9",
	"origin.retries.when": "[Error]", "origin.scheme": "https",
	"origin.servers.backup": "true", "origin.servers.host": "other.example.com", "origin.servers.port": "9",
	"origin.servers.service.name": "other", "origin.servers.service.namespace": "other",
	"origin.servers.service.port": "9", "origin.servers.weight": "9",
	"origin.timeouts.connect": "9s", "origin.timeouts.read": "9s", "origin.timeouts.send": "9s",
	"origin.tls.caBundle.configMap.key": "other", "origin.tls.caBundle.configMap.name": "other",
	"origin.tls.caBundle.secret.key": "other", "origin.tls.caBundle.secret.name": "other",
	"origin.tls.serverName": "other.example.com", "origin.tls.verify": "false",
	"persistentVolumeClaimRetentionPolicy.whenDeleted": "Retain",
	"persistentVolumeClaimRetentionPolicy.whenScaled":  "Delete",
	"pod.affinity": "{nodeAffinity: {}}", "pod.agentResources": "{requests: {cpu: 1}}",
	"pod.annotations": "{a: b}", "pod.image": "other", "pod.imagePullPolicy": "Never",
	"pod.imagePullSecrets": "[{name: a}]", "pod.labels": "{a: b}", "pod.nodeSelector": "{a: b}",
	"pod.priorityClassName": "other", "pod.resources": "{limits: {cpu: 9}}", "pod.terminationGracePeriodSeconds": "99",
	"pod.tolerations":               "[{key: a}]",
	"pod.topologySpreadConstraints": "[{maxSkew: 9, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]",

	"purge.grace": "9s", "purge.tagHeaders": "[X-Tags]", "purge.unsafeMethods": "Ignore", "purge.unindexed": "Wait",
	"routing.mode": "Local", "routing.tls": "Off", "routing.handover": "9s", "routing.scope": "Zone",
	"replicas": "9", "placement.perNode": "true", "rollout.canary.seconds": "9", "rollout.maxKeyMovement": "9",
	"rollout.maxUnavailable": "9", "rollout.workerShutdownTimeout": "9s",
	"service.annotations": "{a: b}", "service.externalTrafficPolicy": "Local", "service.loadBalancerClass": "a/b",
	"service.port": "9", "service.httpsPort": "9", "service.type": "NodePort",
}

// TestDocumentedEffectOfEachField checks the table of docs/concepts/changes.md against what the code does with a change
// of each field.
func TestDocumentedEffectOfEachField(t *testing.T) {
	table := readTable(t)
	fields := leaves(t)
	for _, path := range fields {
		if _, ok := changes[path]; !ok {
			t.Errorf("%s has no other value in this test", path)
		}
	}
	for path, value := range changes {
		t.Run(path, func(t *testing.T) {
			if !slices.Contains(fields, path) {
				t.Fatal("is no field of the spec")
			}
			want := table.of(path).class
			if want == "" {
				t.Fatal("is not in the table")
			}
			got := refused
			if value != "" {
				got = classOf(t, path, value)
			}
			if got != want {
				t.Errorf("is in class %q, the table says %q", got, want)
			}
			if value != "" {
				checkCached(t, path, value, table.of(path).note)
			}
		})
	}
	for _, c := range edit.CachedFields {
		if _, ok := table[c.Field]; !ok {
			t.Errorf("the table has no row for %s, of which plan says: %s", c.Field, c.Note)
		}
	}
	for row := range table {
		if !slices.ContainsFunc(fields, func(f string) bool { return f == row || strings.HasPrefix(f, row+".") }) {
			t.Errorf("the table's row %s is no field of the spec", row)
		}
	}
}

const baseSpec = `
disks: [{name: disk1, size: 10Gi, media: HDD, weight: 1, cache: {}, health: {}, threadPool: {}, ` +
	`localPath: {path: /mnt/a}}, {name: disk2, size: 10Gi, media: HDD, weight: 1}]
origin:
  servers: [{service: {name: origin, port: 80}}]
  tls: {caBundle: {secret: {}, configMap: {}}}
cache: {valid: [{status: [200], for: 1h}], bypass: {}, query: {}, ttl: [{status: [200]}],
  slice: {size: 1Mi}}
headers: {request: {set: [{name: a, value: a}]}, response: {set: [{name: a, value: a}]}}
service: {type: ClusterIP}
listen: {tls: {secretName: a}, gzip: {enabled: true}, clientAddress: {}}
memoryTier: {enabled: true, size: 64Mi}
io: {mode: Workers}
routing: {mode: Sharded}
gateways: {allowedNamespaces: {}, ports: {}}
`

// classOf returns the class of a change.
func classOf(t *testing.T, path, value string) string {
	t.Helper()
	before, after := decodeSpec(t, nil, ""), decodeSpec(t, strings.Split(path, "."), value)
	if diff := cmp.Diff(before.Spec, after.Spec); diff == "" {
		t.Fatal("the value is the same as before")
	}
	type outcome struct{ template, revision, objects string }
	of := func(cacheNode *v1alpha1.CacheNode) outcome {
		in := manifest.NewPodInput(effective.CacheNode{CacheNode: cacheNode})
		hash, err := in.Hash()
		if err != nil {
			t.Fatal(err)
		}
		n, err := revision.Of(effective.CacheNode{CacheNode: cacheNode}, revision.Outside{ClusterDomain: "cluster.local"})
		if err != nil {
			t.Fatal(err)
		}
		objects, err := json.Marshal(manifest.Build(manifest.Input{CacheNode: effective.CacheNode{CacheNode: cacheNode}}))
		if err != nil {
			t.Fatal(err)
		}
		return outcome{hash, n.ID, string(objects)}
	}
	a, b := of(before), of(after)
	switch {
	case a.template != b.template:
		return newPods
	case a.revision != b.revision:
		return reload
	case a.objects != b.objects:
		return object
	}
	return operator
}

// decodeSpec reads the base spec, with one field changed.
func decodeSpec(t *testing.T, path []string, value string) *v1alpha1.CacheNode {
	t.Helper()
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(baseSpec), &spec); err != nil {
		t.Fatal(err)
	}
	if path != nil {
		var v any
		if err := yaml.Unmarshal([]byte(value), &v); err != nil {
			t.Fatal(err)
		}
		at := spec
		for _, name := range path[:len(path)-1] {
			switch child := at[name].(type) {
			case map[string]any:
				at = child
			case []any:
				at = child[0].(map[string]any)
			default:
				made := map[string]any{}
				at[name] = made
				at = made
			}
		}
		at[path[len(path)-1]] = v
	}
	metadata := map[string]any{"name": "edge", "namespace": "default"}
	text, err := yaml.Marshal(map[string]any{"metadata": metadata, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	cacheNode := &v1alpha1.CacheNode{}
	if err := yaml.UnmarshalStrict(text, cacheNode); err != nil {
		t.Fatal(err)
	}
	return cacheNode
}

// leaves returns the paths of the fields that have no fields of our API below them. The paths do not show which fields
// are lists.
func leaves(t *testing.T) []string {
	t.Helper()
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd.CacheNodes, &definition); err != nil {
		t.Fatal(err)
	}
	kubernetes := []string{
		"pod.affinity", "pod.tolerations", "pod.topologySpreadConstraints", "pod.resources", "pod.agentResources",
		"pod.imagePullSecrets", "gateways.allowedNamespaces.selector",
	}
	var list []string
	var walk func(path string, schema apiextensionsv1.JSONSchemaProps)
	walk = func(path string, schema apiextensionsv1.JSONSchemaProps) {
		if schema.Items != nil && schema.Items.Schema != nil && len(schema.Items.Schema.Properties) > 0 {
			schema = *schema.Items.Schema
		}
		if len(schema.Properties) == 0 || slices.Contains(kubernetes, path) {
			list = append(list, path)
			return
		}
		for name, child := range schema.Properties {
			walk(strings.TrimPrefix(path+"."+name, "."), child)
		}
	}
	walk("", definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	return list
}

// checkCached checks that "kubectl cachenode plan" reports each change that gives objects new keys, and that the
// document contains the same note.
func checkCached(t *testing.T, path, value, documented string) {
	t.Helper()
	before, after := decodeSpec(t, nil, ""), decodeSpec(t, strings.Split(path, "."), value)
	fate := edit.Fate("")
	for _, c := range edit.CachedOf(before.Spec, after.Spec) {
		if path != c.Field && !strings.HasPrefix(path, c.Field+".") {
			t.Errorf("the edit counts as one of %s", c.Field)
		}
		if fate = c.Fate; !strings.Contains(documented, c.Note) {
			t.Errorf("docs/concepts/changes.md says %q, plan says %q", documented, c.Note)
		}
	}
	old, changed := keysOf(before.Spec.Cache), keysOf(after.Spec.Cache)
	same := 0
	for i := range old {
		if old[i] == changed[i] {
			same++
		}
	}
	switch {
	case same == 0 && fate != edit.Cold:
		t.Errorf("all keys change, plan says %q", fate)
	case same > 0 && same < len(old) && fate != edit.Partly:
		t.Errorf("%d of %d keys change, plan says %q", len(old)-same, len(old), fate)
	case same == len(old) && fate == edit.Cold:
		t.Error("no key changes, plan says that all do")
	}
}

// keysOf returns the cache keys of a few requests. With slices, they are the keys of the first slices.
func keysOf(c v1alpha1.Cache) (keys []string) {
	for _, uri := range []string{"/a", "/a?a=b", "/a?b=c&a=b", "/b%20c?x=y"} {
		key := cachekey.Of(c, cachekey.Request{Method: "GET", Scheme: "http", Host: "www.example.com", URI: uri})
		if c.Slice != nil {
			key.Slice = cachekey.NthSlice(c.Slice.Size.Value(), 0)
		}
		keys = append(keys, key.String())
	}
	return keys
}

// classTable contains the rows of the table in docs/concepts/changes.md. The key of the map is the path of the field.
type classTable map[string]classRow

// classRow contains the class of a field, and the note about the field in the table.
type classRow struct{ class, note string }

func readTable(t *testing.T) classTable {
	t.Helper()
	text, err := os.ReadFile("../../docs/concepts/changes.md")
	if err != nil {
		t.Fatal(err)
	}
	table := classTable{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		for field := range strings.SplitSeq(cells[1], ",") {
			field = strings.ReplaceAll(strings.Trim(strings.TrimSpace(field), "`"), "[]", "")
			if table[field].class != "" {
				t.Errorf("%s is in the table twice", field)
			}
			table[field] = classRow{strings.TrimSpace(cells[2]), cells[3]}
		}
	}
	if len(table) < 10 {
		t.Fatalf("the table has %d rows", len(table))
	}
	return table
}

// of returns the row with the longest path that contains the field.
func (c classTable) of(field string) classRow {
	for path := field; path != ""; {
		if row, ok := c[path]; ok {
			return row
		}
		i := strings.LastIndex(path, ".")
		path = path[:max(i, 0)]
	}
	return classRow{}
}
