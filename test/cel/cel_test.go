// Package cel tests every rule of the CRD on a real API server and in the plugin's offline validation. Both must give
// the same result.
package cel

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/validation"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// base is a valid CacheNode. Each test case changes some of its fields.
const base = `
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: %s, namespace: default}
spec:
  disks: [{name: disk1, size: 10Gi}, {name: disk2, size: 10Gi}]
  origin: {servers: [{host: origin.example.com}]}
`

// object returns base with changed fields of the spec. The parameter fields maps the path of each changed field to its
// value as YAML; "-" removes the field.
func object(t *testing.T, name string, fields map[string]string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, base, name), &u.Object); err != nil {
		t.Fatal(err)
	}
	for path, text := range fields {
		keys := append([]string{"spec"}, strings.Split(path, ".")...)
		if text == "-" {
			unstructured.RemoveNestedField(u.Object, keys...)
			continue
		}
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(u.Object, whole(value), keys...); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// whole converts floats, which the YAML parser returns, to integers, because unstructured objects contain integers.
func whole(value any) any {
	switch v := value.(type) {
	case float64:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = whole(v[key])
		}
	}
	return value
}

type fields = map[string]string

var refused = map[string]struct {
	fields fields
	want   string // a part of the error
}{
	"no disks": {fields{"disks": "[]"}, "spec.disks"},
	"33 disks": {fields{"disks": manyDisks(33)}, "spec.disks"},
	"two disks with one name": {
		fields{"disks": "[{name: disk1, size: 1Gi}, {name: disk1, size: 1Gi}]"}, "spec.disks[1]",
	},
	"a hyphen in a disk's name": {fields{"disks": "[{name: disk-1, size: 1Gi}]"}, "no hyphen or underscore"},
	"an underscore":             {fields{"disks": "[{name: disk_1, size: 1Gi}]"}, "no hyphen or underscore"},
	"a disk name of 17 characters": {
		fields{"disks": "[{name: abcdefghijklmnopq, size: 1Gi}]"}, "spec.disks[0].name",
	},
	"a disk called as the tier": {
		fields{"disks": "[{name: memory, size: 1Gi}]"}, "memory is what the memory tier is called",
	},
	"a size that does not parse": {fields{"disks": "[{name: disk1, size: big}]"}, "spec.disks[0].size"},
	"a tiny disk":                {fields{"disks": "[{name: disk1, size: 1Mi}]"}, "at least 64Mi"},
	"a size that is no quantity": {
		fields{"disks": "[{name: disk1, size: 1TB}]"}, "size: 1TB is no quantity: write it like 500M, 1T or 1Ti",
	},
	"a tier that is no quantity": {fields{"memoryTier": "{size: 1GB}"}, "size: 1GB is no quantity"},
	"a huge disk":                {fields{"disks": "[{name: disk1, size: 9Pi}]"}, "at most 8Pi"},
	"weight 0":                   {fields{"disks": "[{name: disk1, size: 1Gi, weight: 0}]"}, "spec.disks[0].weight"},
	"a weight on one of two disks": {
		fields{"disks": "[{name: disk1, size: 1Gi, weight: 1}, {name: disk2, size: 1Gi}]"},
		"set weight on every disk or on none",
	},
	"an unknown medium": {fields{"disks": "[{name: disk1, size: 1Gi, media: Tape}]"}, "spec.disks[0].media"},
	"no thread":         {fields{"disks": "[{name: disk1, size: 1Gi, threadPool: {threads: 0}}]"}, "threads"},
	"a negative queue":  {fields{"disks": "[{name: disk1, size: 1Gi, threadPool: {maxQueue: -1}}]"}, "maxQueue"},
	"a storage class with a space": {
		fields{"disks": "[{name: disk1, size: 1Gi, storageClassName: 'a b'}]"}, "must be the name of a StorageClass",
	},
	"the operator's own class": {
		fields{"disks": "[{name: disk1, size: 1Gi, storageClassName: cachenode-local}]"},
		"cachenode-local is for the volumes that the operator makes",
	},
	"a duration without a unit": {
		fields{"disks": "[{name: disk1, size: 1Gi, cache: {inactive: '10'}}]"}, "must be a duration",
	},
	"a negative minFree": {
		fields{"disks": "[{name: disk1, size: 1Gi, cache: {minFree: '-1'}}]"}, "must not be negative",
	},
	"a tiny keys zone": {
		fields{"disks": "[{name: disk1, size: 1Gi, cache: {keysZone: 1Ki}}]"}, "keysZone: must be at least 1Mi",
	},
	"a tiny cache": {
		fields{"disks": "[{name: disk1, size: 1Gi, cache: {maxSize: 1Ki}}]"}, "maxSize: must be at least 1Mi",
	},
	"too many replicas": {fields{"replicas": "1001"}, "spec.replicas"},
	"no server":         {fields{"origin.servers": "[]"}, "spec.origin.servers"},
	"only backups": {
		fields{"origin.servers": "[{host: a.example.com, backup: true}]"}, "at least one must not be a backup",
	},
	"service and host": {
		fields{"origin.servers": "[{host: a.example.com, service: {name: a, port: 80}}]"}, "either service or host",
	},
	"neither service nor host": {fields{"origin.servers": "[{weight: 1}]"}, "either service or host"},
	"a port beside a service": {
		fields{"origin.servers": "[{service: {name: a, port: 80}, port: 81}]"}, "belongs to host",
	},
	"a host without a dot": {fields{"origin.servers": "[{host: origin}]"}, "fully qualified"},
	"a host with a port":   {fields{"origin.servers": "[{host: 'a.example.com:80'}]"}, "fully qualified"},
	"a host with a scheme": {fields{"origin.servers": "[{host: 'http://a.example.com'}]"}, "fully qualified"},
	"a variable in a host": {
		fields{"origin.servers": "[{host: '$host.example.com'}]"}, "spec.origin.servers[0].host",
	},
	"a semicolon in a host": {
		fields{"origin.servers": "[{host: 'a.example.com;'}]"}, "spec.origin.servers[0].host",
	},
	"a newline in a host": {
		fields{"origin.servers": `[{host: "a.example.com\n"}]`}, "spec.origin.servers[0].host",
	},
	"a bad service": {
		fields{"origin.servers": "[{service: {name: A_b, port: 80}}]"}, "must be the name of a Service",
	},
	"a bad namespace": {
		fields{"origin.servers": "[{service: {name: a, namespace: 'x.y', port: 80}}]"}, "must be the name of a namespace",
	},
	"port 0": {
		fields{"origin.servers": "[{host: a.example.com, port: 0}]"}, "spec.origin.servers[0].port",
	},
	"a quote in the Host header":    {fields{"origin.hostHeader": `'a"b'`}, "spec.origin.hostHeader"},
	"a brace in the Host header":    {fields{"origin.hostHeader": "'a{b'"}, "spec.origin.hostHeader"},
	"a variable in the Host header": {fields{"origin.hostHeader": "$host"}, "spec.origin.hostHeader"},
	"an unknown scheme":             {fields{"origin.scheme": "ftp"}, "spec.origin.scheme"},
	"tls with http":                 {fields{"origin.tls": "{verify: false}"}, "only for scheme https"},
	"a bundle that nobody reads": {
		fields{"origin.scheme": "https", "origin.tls": "{verify: false, caBundle: {secret: {name: a}}}"},
		"has no effect with verify false",
	},
	"two bundles": {
		fields{"origin.scheme": "https", "origin.tls": "{caBundle: {secret: {name: a}, configMap: {name: b}}}"},
		"either secret or configMap",
	},
	"a bad server name": {
		fields{"origin.scheme": "https", "origin.tls": "{serverName: 'a b'}"}, "serverName: must be",
	},
	"an unknown failure":           {fields{"origin.retries": "{when: [Weather]}"}, "spec.origin.retries.when[0]"},
	"a bad timeout":                {fields{"origin.timeouts": "{connect: soon}"}, "must be a duration"},
	"a host with a path":           {fields{"hosts": "[a.example.com/x]"}, "hosts: each must be"},
	"a wildcard in the middle":     {fields{"hosts": "['a.*.example.com']"}, "hosts: each must be"},
	"a regular expression as host": {fields{"hosts": "['~^(.*)$']"}, "hosts: each must be"},
	"a host twice":                 {fields{"hosts": "[a.example.com, a.example.com]"}, "spec.hosts[1]"},
	"a key without the object":     {fields{"cache.key": "[Scheme, Host]"}, "either RequestURI or URI"},
	"a key with both URIs":         {fields{"cache.key": "[Host, URI, RequestURI]"}, "either RequestURI or URI"},
	"arguments twice":              {fields{"cache.key": "[Host, RequestURI, Args]"}, "Args goes with URI only"},
	"a key without a host": {
		fields{"cache.key": "[RequestURI]"}, "objects of one host would be served for another",
	},
	"a key for a wildcard": {
		fields{"cache.key": "[RequestURI]", "hosts": "['*.example.com']"}, "objects of one host would be served for another",
	},
	"a raw variable as key": {fields{"cache.key": "[$request_uri]"}, "spec.cache.key[0]"},
	"POST without Method":   {fields{"cache.methods": "[GET, POST]"}, "POST needs Method"},
	"an unknown method":     {fields{"cache.methods": "[DELETE]"}, "spec.cache.methods[0]"},
	"a status code out of range": {
		fields{"cache.valid": "[{status: [99], for: 1m}]"}, "spec.cache.valid[0].status[0]",
	},
	"no status code":    {fields{"cache.valid": "[{status: [], for: 1m}]"}, "spec.cache.valid[0].status"},
	"an unknown reason": {fields{"cache.useStale": "[Always]"}, "spec.cache.useStale[0]"},
	"stale for years":   {fields{"cache.staleIfError": "9000h"}, "spec.cache.staleIfError"},
	"stale while revalidated for years": {
		fields{"cache.staleWhileRevalidate": "9000h"}, "spec.cache.staleWhileRevalidate",
	},
	"tiny slices":  {fields{"cache.slice": "{size: 1Ki}"}, "size: must be from 1Mi to 64Mi"},
	"huge slices":  {fields{"cache.slice": "{size: 65Mi}"}, "size: must be from 1Mi to 64Mi"},
	"no size":      {fields{"cache.slice": "{}"}, "spec.cache.slice.size"},
	"both lists":   {fields{"cache.query": "{drop: [a], keep: [b]}"}, "give either drop or keep"},
	"neither list": {fields{"cache.query": "{}"}, "give either drop or keep"},
	"a status twice": {
		fields{"cache.ttl": "[{status: [200], min: 1s}, {status: [404, 200], force: 0s}]"}, "a status code is in two entries",
	},
	"33 arguments": {fields{"cache.query": "{drop: " + names(33, 10) + "}"}, "spec.cache.query.drop"},
	"arguments that nginx refuses": { // because it accepts regular expressions of at most 4096 bytes
		fields{"cache.query": "{keep: " + names(32, 62) + "}"}, "keep: has more than 1024 characters together",
	},
	"a star in the middle": {
		fields{"cache.query": "{drop: ['a*b']}"}, "must be a name of letters, digits",
	},
	"arguments that reach no origin": {
		fields{"cache.query": "{drop: [a]}", "cache.key": "[Host, URI]"}, "needs RequestURI or Args in cache.key",
	},
	"no cookies of slices": {
		fields{"cache.slice": "{size: 1Mi}", "headers": "{response: {remove: [set-cookie]}}"},
		"Set-Cookie cannot be removed with cache.slice",
	},
	"nothing to bypass by": {fields{"cache.bypass": "{}"}, "give cookies, headers or both"},
	"17 cookies":           {fields{"cache.bypass": "{cookies: " + names(17, 60) + "}"}, "spec.cache.bypass.cookies"},
	"an underscore in a header": {
		fields{"cache.bypass": "{headers: [a_b]}"}, "must be a header's name: letters, digits and dashes",
	},
	"a header of our own": {
		fields{"headers": "{request: {set: [{name: X-CacheNode-Disk, value: a}]}}"}, "X-CacheNode- or X-Accel-",
	},
	"a header that says how nginx serves": {
		fields{"headers": "{response: {remove: [x-accel-redirect]}}"}, "X-CacheNode- or X-Accel-",
	},
	"tags in a header of our own": {
		fields{"purge": "{tagHeaders: [Cache-Tag, X-cachenode-Tags]}"}, "X-CacheNode- or X-Accel-",
	},
	"another Host": {
		fields{"headers": "{request: {set: [{name: hOST, value: a}]}}"}, "set: one of these headers is CacheNode's",
	},
	"no Range": {
		fields{"headers": "{request: {remove: [Range]}}"}, "remove: one of these headers is CacheNode's",
	},
	"another Vary": {
		fields{"headers": "{response: {set: [{name: Vary, value: a}]}}"}, "set: one of these headers is CacheNode's",
	},
	"who answered": {
		fields{"headers": "{response: {set: [{name: X-Cache-Hop, value: a}]}}"}, "set: one of these headers is CacheNode's",
	},
	"no ETag": {
		fields{"headers": "{response: {remove: [ETag]}}"}, "remove: one of these headers is CacheNode's",
	},
	"set and removed": {
		fields{"headers": "{response: {set: [{name: X-A, value: a}], remove: [x-a]}}"}, "a header that is set replaces",
	},
	"one header twice": {
		fields{"headers": "{request: {set: [{name: X-A, value: a}, {name: x-a, value: b}]}}"}, "differ in letters' case only",
	},
	"a variable in a header": {
		fields{"headers": "{request: {set: [{name: X-A, value: 'a$b'}]}}"}, "must be printable ASCII without $",
	},
	"a line in a header": {
		fields{"headers": `{request: {set: [{name: X-A, value: "a\nb"}]}}`}, "must be printable ASCII without $",
	},
	"a space at the end": {
		fields{"headers": `{request: {set: [{name: X-A, value: "a "}]}}`}, "must be printable ASCII without $",
	},
	"nobody is trusted": {
		fields{"listen.clientAddress": "{source: ProxyProtocol, trustedCIDRs: []}"}, "spec.listen.clientAddress.trustedCIDRs",
	},
	"an address is no network": {
		fields{"listen.clientAddress": "{source: ProxyProtocol, trustedCIDRs: [10.0.0.1]}"},
		"must be a network such as 10.0.0.0/8",
	},
	"another source": {
		fields{"listen.clientAddress": "{source: X-Real-IP, trustedCIDRs: [10.0.0.0/8]}"}, "spec.listen.clientAddress.source",
	},
	"HTTP/3 with PROXY": {
		fields{
			"listen.clientAddress": "{source: ProxyProtocol, trustedCIDRs: [10.0.0.0/8]}",
			"listen.tls":           "{secretName: a, http3: true}",
		}, "goes without the PROXY protocol only",
	},
	"zones with Local": {
		fields{"routing": "{mode: Local, scope: Zone}"}, "scope and tls have no meaning with mode Local",
	},
	"an unknown scope":  {fields{"routing": "{scope: Region}"}, "spec.routing.scope"},
	"a day and an hour": {fields{"routing": "{handover: 25h}"}, "must be at most 24h"},
	"a port of pods": {
		fields{"routing": "{mode: Sharded}", "listen.port": "8088"}, "ports 8088 and 8089 are for the other pods",
	},
	"a port of pods for routes": {
		fields{"routing": "{mode: Sharded}", "gateways": "{}", "listen.port": "8090"}, "8090 and 8091 are for the other pods",
	},
	"a port of Gateways": {
		fields{"gateways": "{}", "listen.port": "20000"}, "gateways.ports: must not contain listen.port",
	},
	"a TLS port of Gateways": {
		fields{"gateways": "{ports: {from: 12000, to: 12999}}", "listen.tls": "{secretName: a, port: 12999}"},
		"gateways.ports: must not contain listen.port",
	},
	"a range that ends before it begins": {
		fields{"gateways": "{ports: {from: 20001, to: 20000}}"}, "to must not be less than from",
	},
	"too large a range":         {fields{"gateways": "{ports: {from: 10000, to: 20000}}"}, "at most 4096 ports"},
	"a range below its minimum": {fields{"gateways": "{ports: {from: 9999}}"}, "spec.gateways.ports.from"},
	"a range of outgoing ports": {fields{"gateways": "{ports: {to: 32768}}"}, "spec.gateways.ports.to"},
	"a selector that is unused": {
		fields{"gateways": "{allowedNamespaces: {selector: {matchLabels: {a: b}}}}"}, "set it if from is Selector",
	},
	"no selector": {
		fields{"gateways": "{allowedNamespaces: {from: Selector}}"}, "set it if from is Selector",
	},
	"no routes": {fields{"gateways": "{maxRoutes: 0}"}, "spec.gateways.maxRoutes"},
	"too many routes of a team": {
		fields{"gateways": "{maxRoutesPerNamespace: 5001}"}, "spec.gateways.maxRoutesPerNamespace",
	},
	"neither an origin nor Gateways": {fields{"origin": "-"}, "origin"},
	"a type in capitals":             {fields{"listen.gzip": "{types: [Text/CSS]}"}, "must be a media type"},
	"what is always zipped":          {fields{"listen.gzip": "{types: [text/html]}"}, "text/html is always compressed"},
	"level 0":                        {fields{"listen.gzip": "{level: 0}"}, "spec.listen.gzip.level"},
	"an unknown format":              {fields{"logs.format": "XML"}, "spec.logs.format"},
	"minUses 0":                      {fields{"cache.minUses": "0"}, "spec.cache.minUses"},
	"an unknown mode":                {fields{"io.mode": "Fast"}, "spec.io.mode"},
	"no worker":                      {fields{"io.workersPerCPU": "0"}, "spec.io.workersPerCPU"},
	"too many workers":               {fields{"io.workersPerCPU": "17"}, "spec.io.workersPerCPU"},
	"a negative read-ahead":          {fields{"io.readAhead": "-1"}, "must be from 0 to 1Gi"},
	"a tiny memory tier":             {fields{"memoryTier.size": "1Mi"}, "must be from 16Mi to 16Ti"},
	"a tier above the request": {
		fields{"memoryTier": "{size: 256Mi}", "pod": "{resources: {requests: {memory: 128Mi}, limits: {memory: 1Gi}}}"},
		"is more than pod.resources.requests.memory",
	},
	"a tier of most of the memory": {
		fields{"memoryTier": "{size: 600Mi}", "pod": "{resources: {limits: {memory: 1Gi}}}"},
		"is more than half of pod.resources.limits.memory",
	},
	"a huge object in memory":       {fields{"memoryTier.maxObjectSize": "2Gi"}, "must be from 1Ki to 1Gi"},
	"a tier for what is never used": {fields{"memoryTier.minUses": "0"}, "spec.memoryTier.minUses"},
	"a tiny sendfile chunk":         {fields{"io.sendfileMaxChunk": "1Ki"}, "must be from 16Ki to 1Gi"},
	"the private port": {
		fields{"listen.port": "8081"}, "are for health, metrics and the agent",
	},
	"the agent's port": {
		fields{"listen.port": "8084"}, "are for health, metrics and the agent",
	},
	"TLS on the plain port": {fields{"listen": "{port: 8443, tls: {secretName: a}}"}, "must not be listen.port"},
	"TLS on the agent's port": {
		fields{"listen.tls": "{secretName: a, port: 8084}"}, "are for health, metrics and the agent",
	},
	"HTTP/3 on the port of nginx's logs": {
		fields{"listen.tls": "{secretName: a, port: 8085, http3: true}"}, "port: with http3, 8085 is for nginx's logs",
	},
	"TLS without a Secret": {fields{"listen.tls": "{port: 8443}"}, "spec.listen.tls.secretName"},
	"a Secret of no name":  {fields{"listen.tls": "{secretName: A_}"}, "must be the name of a Secret"},
	"one port twice": {
		fields{"service": "{port: 443}", "listen.tls": "{secretName: a}"}, "service.httpsPort: must not be service.port",
	},
	"a queue of almost nothing": {
		fields{"disks": "[{name: disk1, size: 1Gi, threadPool: {maxQueue: 0}}]"}, "spec.disks[0].threadPool.maxQueue",
	},
	"a queue that could overflow": {
		fields{"disks": "[{name: disk1, size: 1Gi, threadPool: {maxQueue: 4096}}]"},
		"maxQueue must not be less than listen.maxConnections",
	},
	"a probe all the time": {
		fields{"disks": "[{name: disk1, size: 1Gi, health: {interval: 1ms}}]"}, "must be from 500ms to 1m",
	},
	"a probe that never ends": {
		fields{"disks": "[{name: disk1, size: 1Gi, health: {timeout: 1h}}]"}, "must be from 50ms to 1m",
	},
	"a probe without an end": {
		fields{"disks": "[{name: disk1, size: 1Gi, health: {timeout: soon}}]"}, "must be a duration",
	},
	"less than nothing free": {
		fields{"disks": "[{name: disk1, size: 1Gi, health: {minFree: -1}}]"}, "must not be negative",
	},
	"an unknown device rule": {
		fields{"disks": "[{name: disk1, size: 1Gi, health: {device: Any}}]"}, "spec.disks[0].health.device",
	},
	"a foreign cache": {
		fields{"disks": "[{name: disk1, size: 1Gi, foreignCache: Burn}]"}, "spec.disks[0].foreignCache",
	},
	"no fallback at all":     {fields{"origin.fallbackConcurrency": "0"}, "spec.origin.fallbackConcurrency"},
	"more than all requests": {fields{"monitoring.requestSampling": "101"}, "spec.monitoring.requestSampling"},
	"no pod at a time": {
		fields{"rollout.maxUnavailable": "0"}, "must be a number from 1 to 1000 or a percentage",
	},
	"workers that never end": {fields{"rollout.workerShutdownTimeout": "25h"}, "must be from 1s to 24h"},
	"a canary for ever":      {fields{"rollout.canary": "{seconds: 100000}"}, "spec.rollout.canary.seconds"},
	"a path beside a class": {
		fields{"disks": "[{name: disk1, size: 1Gi, storageClassName: a, localPath: {path: /mnt/a}}]"},
		"cannot be set beside storageClassName",
	},
	"one path twice": {
		fields{"disks": "[{name: disk1, size: 1Gi, localPath: {path: /mnt/a}}, " +
			"{name: disk2, size: 1Gi, localPath: {path: /mnt/a}}]"},
		"no localPath.path may be that of another disk",
	},
	"a path in another": {
		fields{"disks": "[{name: disk1, size: 1Gi, localPath: {path: /mnt/a/b}}, " +
			"{name: disk2, size: 1Gi, localPath: {path: /mnt/a}}]"},
		"no localPath.path may be that of another disk, or lie in it",
	},
	"a relative path": {
		fields{"disks": "[{name: disk1, size: 1Gi, localPath: {path: mnt/a}}]"}, "must be an absolute path",
	},
	"the root": {
		fields{"disks": "[{name: disk1, size: 1Gi, localPath: {path: /}}]"}, "spec.disks[0].localPath.path",
	},
	"a way up": {
		fields{"disks": "[{name: disk1, size: 1Gi, localPath: {path: /mnt/../etc}}]"}, "must be an absolute path",
	},
	"a slash at the end": {
		fields{"disks": "[{name: disk1, size: 1Gi, localPath: {path: /mnt/a/}}]"}, "must be an absolute path",
	},
	"no path":            {fields{"disks": "[{name: disk1, size: 1Gi, localPath: {}}]"}, "spec.disks[0].localPath.path"},
	"more than all keys": {fields{"rollout.maxKeyMovement": "101"}, "spec.rollout.maxKeyMovement"},
	"a node lost in no time": {
		fields{"disruption.nodeLossAfter": "1s"}, "must be from 10s to 24h, or 0s to switch it off",
	},
	"a disk lost in no time": {
		fields{"disruption.diskLossAfter": "1s"}, "must be from 10s to 24h, or 0s to switch it off",
	},
	"a privileged port":     {fields{"listen.port": "80"}, "spec.listen.port"},
	"an unknown log level":  {fields{"logs.level": "Loud"}, "spec.logs.level"},
	"our own label":         {fields{"pod.labels": "{app.kubernetes.io/name: x}"}, "the operator's own"},
	"our own annotation":    {fields{"pod.annotations": "{cachenode.io/config-revision: x}"}, "the operator's own"},
	"a short grace period":  {fields{"pod.terminationGracePeriodSeconds": "1"}, "terminationGracePeriodSeconds"},
	"a load balancer class": {fields{"service.loadBalancerClass": "x/y"}, "only for type LoadBalancer"},
	"a traffic policy": {
		fields{"service.externalTrafficPolicy": "Local"}, "only for types NodePort and LoadBalancer",
	},
	"our own service annotation": {
		fields{"service.annotations": "{cachenode.io/applied: x}"}, "the operator's own",
	},
	"101% unavailable": {
		fields{"disruption.maxUnavailable": "101%"}, "must be a number from 0 to 1000 or a percentage",
	},
	"-1 unavailable": {
		fields{"disruption.maxUnavailable": "-1"}, "must be a number from 0 to 1000 or a percentage",
	},
}

var accepted = map[string]fields{
	"base":     {},
	"32 disks": {"disks": manyDisks(32)},
	"weights on all disks": {
		"disks": "[{name: disk1, size: 1Gi, weight: 1}, {name: disk2, size: 1Gi, weight: 10000}]",
	},
	"a size as a number": {"disks": "[{name: disk1, size: 1073741824}]"},
	"a small queue": {
		"disks": "[{name: disk1, size: 1Gi, threadPool: {maxQueue: 1024}}]", "listen.maxConnections": "1024",
	},
	"thresholds of a disk": {
		"disks": "[{name: disk1, size: 1Gi, foreignCache: Empty, health: {interval: 500ms, timeout: 50ms, " +
			"failures: 1, successes: 1, minFree: 0, minFreeInodes: 0, device: Shared}}]",
	},
	"443 in plain text": {"service.port": "443"},
	"TLS":               {"listen.tls": "{secretName: edge-tls}", "service.httpsPort": "8443"},
	"a rollout": {
		"rollout": "{canary: {seconds: 60}, maxUnavailable: 100%, workerShutdownTimeout: 24h}",
	},
	"minFree off": {"disks": "[{name: disk1, size: 1Gi, cache: {minFree: 0}}]"},
	"no pods":     {"replicas": "0"},
	"an address and a service": {
		"origin.servers": "[{host: 192.0.2.1, port: 8080}, " +
			"{service: {name: a, namespace: b, port: 80}, backup: true}]",
	},
	"a host header with a port":   {"origin.hostHeader": "www.example.com:8443"},
	"https with defaults":         {"origin.scheme": "https"},
	"https with a bundle":         {"origin.scheme": "https", "origin.tls": "{caBundle: {configMap: {name: ca}}}"},
	"https, not verified":         {"origin.scheme": "https", "origin.tls": "{verify: false}"},
	"never retry":                 {"origin.retries": "{when: []}"},
	"hosts and a wildcard":        {"hosts": "[cdn.example.com, '*.example.com', localhost]"},
	"a key without a host, fixed": {"cache.key": "[RequestURI]", "origin.hostHeader": "www.example.com"},
	"a key for a single host":     {"cache.key": "[URI, Args]", "hosts": "[cdn.example.com]"},
	"POST with Method":            {"cache.methods": "[GET, POST]", "cache.key": "[Method, Host, RequestURI]"},
	"never stale":                 {"cache.useStale": "[]"},
	"no windows":                  {"cache.staleWhileRevalidate": "0s", "cache.staleIfError": "0s"},
	"nothing valid by itself":     {"cache.valid": "[]"},
	"slices":                      {"cache.slice": "{size: 64Mi}"},
	"a tracker's arguments":       {"cache.query": "{drop: ['utm_*', fbclid, 'a[]', '%5B']}"},
	"lifetimes by status":         {"cache.ttl": "[{status: [200], min: 1s}, {status: [404], force: 0s}]"},
	"what is ignored":             {"cache.ignore": "[NoStore, Private, NoCache]"},
	"32 arguments":                {"cache.query": "{keep: " + names(32, 30) + "}"},
	"16 cookies and headers":      {"cache.bypass": "{cookies: " + names(16, 60) + ", headers: " + names(16, 60) + "}"},
	"headers": {
		"headers": `{request: {set: [{name: X-A, value: 'a "b" \ c; {d} #'}], remove: [Cookie]}, ` +
			"response: {set: [{name: Cache-Control, value: no-cache}], remove: [X-Powered-By]}}",
	},
	"many headers": {
		"headers": "{request: {set: " + headers(16) + ", remove: " + names(16, 60) + "}, " +
			"response: {set: " + headers(16) + ", remove: " + names(16, 60) + "}}",
	},
	"the front door": {
		"listen.clientAddress": "{source: XForwardedFor, trustedCIDRs: [10.0.0.0/8, 'fd00::/8']}",
		"listen.tls":           "{secretName: a, http2: false, http3: true}",
		"listen.gzip":          "{enabled: true, types: [application/vnd.api+json], minSize: 20, level: 9}",
		"logs":                 "{access: Stdout, format: JSON}",
	},
	"TLS without HTTP/3 on the number of the port of nginx's logs": {
		"listen.tls": "{secretName: a, port: 8085}",
	},
	"local paths": {
		"disks": "[{name: disk1, size: 1Gi, localPath: {path: /mnt/disk-1.a}}, " +
			"{name: disk2, size: 1Gi, localPath: {path: /srv/cache/2, requireMountPoint: false}}, " +
			"{name: disk3, size: 1Gi, localPath: {path: /srv/cache/20}}]",
	},
	"a path and a class": {
		"disks": "[{name: disk1, size: 1Gi, localPath: {path: /mnt/a}}, {name: disk2, size: 1Gi, storageClassName: b}]",
	},
	"one pod a node":       {"placement": "{perNode: true}"},
	"no key may move":      {"rollout.maxKeyMovement": "0"},
	"nothing is ever lost": {"disruption": "{nodeLossAfter: 0s, diskLossAfter: 0s}"},
	"a percentage":         {"disruption.maxUnavailable": "25%"},
	"no disruption":        {"disruption.maxUnavailable": "0"},
	"a load balancer": {
		"service": "{type: LoadBalancer, loadBalancerClass: x/y, externalTrafficPolicy: Local}",
	},
}

// names returns a list of n names as YAML. Each name has the given number of letters, followed by two digits.
func names(n, letters int) string {
	list := make([]string, n)
	for i := range n {
		list[i] = fmt.Sprintf("%s%02d", strings.Repeat("n", letters), i)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func headers(n int) string {
	list := make([]string, n)
	for i := range n {
		list[i] = fmt.Sprintf("{name: %s-%d, value: %s}", strings.Repeat("h", 60), i, strings.Repeat("v", 1000))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func manyDisks(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("{name: disk%d, size: 1Gi}", i))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// offline returns the error with which the plugin refuses an object; nil if it accepts the object.
func offline(t *testing.T, u *unstructured.Unstructured) error {
	t.Helper()
	data, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	cacheNode, errs, err := schema.Decode(data)
	if err != nil {
		return err
	}
	if len(errs) == 0 {
		errs = validation.Validate(cacheNode)
	}
	return errs.ToAggregate()
}

func TestAPIServerAndPluginRefuseTheSame(t *testing.T) {
	t.Parallel()
	c := apiserver.Client(t, apiserver.Shared(t))
	ctx := context.Background()
	for name, tt := range refused {
		t.Run("refused: "+name, func(t *testing.T) {
			err := c.Create(ctx, object(t, "refused", tt.fields), client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the API server says %v, want invalid with %q", err, tt.want)
			}
			if err := offline(t, object(t, "refused", tt.fields)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("offline: %v, want an error with %q", err, tt.want)
			}
		})
	}
	for name, f := range accepted {
		t.Run("accepted: "+name, func(t *testing.T) {
			if err := c.Create(ctx, object(t, "accepted", f), client.DryRunAll); err != nil {
				t.Errorf("the API server says %v", err)
			}
			if err := offline(t, object(t, "accepted", f)); err != nil {
				t.Errorf("offline: %v", err)
			}
		})
	}
	for name, want := range map[string]string{
		"a.b":                   "metadata.name",
		"1a":                    "metadata.name",
		strings.Repeat("a", 41): "metadata.name",
	} {
		t.Run("name "+name, func(t *testing.T) {
			err := c.Create(ctx, object(t, name, nil), client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("the API server says %v, want invalid with %q", err, want)
			}
			if err := offline(t, object(t, name, nil)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("offline: %v, want an error with %q", err, want)
			}
		})
	}
}

func TestVolumesKeepClassAndPath(t *testing.T) {
	t.Parallel()
	c := apiserver.Client(t, apiserver.Shared(t))
	ctx := context.Background()
	const before = "[{name: disk1, size: 1024Mi, storageClassName: a}, {name: disk2, size: 1Gi}, " +
		"{name: disk9, size: 1Gi, localPath: {path: /mnt/a}}]"
	if err := c.Create(ctx, object(t, "edge", fields{"disks": before})); err != nil {
		t.Fatal(err)
	}
	const local = "{name: disk9, size: 1Gi, localPath: {path: /mnt/a}}"
	tests := map[string]struct{ disks, want string }{
		"another order, size in other words": {
			"[{name: disk2, size: 1Gi}, " + local + ", {name: disk1, size: 1Gi, storageClassName: a}]", "",
		},
		"other threads": {
			"[{name: disk1, size: 1Gi, storageClassName: a, threadPool: {threads: 3}}, {name: disk2, size: 1Gi}, " +
				local + "]",
			"",
		},
		"one more": {
			"[{name: disk1, size: 1Gi, storageClassName: a}, {name: disk2, size: 1Gi}, " +
				local + ", {name: disk3, size: 1Gi}]",
			"",
		},
		"one less": {"[{name: disk1, size: 1Gi, storageClassName: a}]", ""},
		"another size": {
			"[{name: disk1, size: 2Gi, storageClassName: a}, {name: disk2, size: 512Mi}]", "",
		},
		"a mere folder will do": {
			"[{name: disk9, size: 1Gi, localPath: {path: /mnt/a, requireMountPoint: false}}]", "",
		},
		"another class": {
			"[{name: disk1, size: 1Gi, storageClassName: b}, {name: disk2, size: 1Gi}]",
			"storageClassName: a volume cannot change its class",
		},
		"no class any more": {
			"[{name: disk1, size: 1Gi}, {name: disk2, size: 1Gi}]",
			"storageClassName: a volume cannot change its class",
		},
		"another path": {
			"[{name: disk9, size: 1Gi, localPath: {path: /mnt/b}}]", "localPath: a volume cannot change its path",
		},
		"no path any more": {"[{name: disk9, size: 1Gi}]", "localPath: a volume cannot change its path"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live := object(t, "edge", nil)
			if err := c.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
				t.Fatal(err)
			}
			changed := object(t, "edge", fields{"disks": tt.disks})
			changed.SetResourceVersion(live.GetResourceVersion())
			err := c.Update(ctx, changed, client.DryRunAll)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}
