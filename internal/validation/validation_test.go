package validation_test

import (
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/schema"
	"github.com/cachenode/cachenode-operator/internal/validation"
)

func TestValidate(t *testing.T) {
	const disk, origin = "{name: disk1, size: 10Gi}", "servers: [{host: a.example.com}]"
	tests := map[string]struct {
		disks, origin, pod string
		want               string // "" for none
	}{
		"valid": {disk, origin, "{}", ""},
		"zones within the memory limit": {
			"{name: disk1, size: 10Gi, cache: {keysZone: 100Mi}}", origin, "{resources: {limits: {memory: 118Mi}}}", "",
		},
		"zones within the memory limit, but not the rest": {
			"{name: disk1, size: 10Gi, cache: {keysZone: 100Mi}}", origin, "{resources: {limits: {memory: 117Mi}}}",
			"spec.disks[0].cache.keysZone",
		},
		"https to an address": {
			disk, "scheme: https, servers: [{host: 192.0.2.1}]", "{}", "spec.origin.tls.serverName: Required",
		},
		"much free space and the default for the cache": {
			"{name: disk1, size: 10Gi, cache: {minFree: 4Gi}}", origin, "{}", "",
		},
		"zones beyond the memory limit, summed up": {
			"{name: disk1, size: 10Gi}, {name: disk2, size: 10Gi, cache: {keysZone: 60Mi}}, " +
				"{name: disk3, size: 1Gi, cache: {keysZone: 60Mi}}",
			origin, "{resources: {limits: {memory: 128Mi}}}",
			"spec.disks[1].cache.keysZone: Invalid value: \"60Mi\": the keys zones of all disks are 121Mi together",
		},
		"default zones fit into the memory limit": {
			"{name: disk1, size: 10Ti}", origin, "{resources: {limits: {memory: 1Gi}}}", "",
		},
		"no zone would fit": {
			"{name: disk1, size: 10Ti}", origin, "{resources: {limits: {memory: 16Mi}}}",
			"spec.pod.resources.limits[memory]: Invalid value: \"16Mi\": the keys zones of all disks are 8Mi together",
		},
		"more cache than disk": {
			"{name: disk1, size: 10Gi, cache: {maxSize: 11Gi}}", origin, "{}", "spec.disks[0].cache.maxSize",
		},
		"cache and free space are more than the disk": {
			"{name: disk1, size: 10Gi, cache: {maxSize: 9Gi, minFree: 2Gi}}", origin, "{}", "spec.disks[0].cache.minFree",
		},
		"all of the disk": {
			"{name: disk1, size: 10Gi, cache: {maxSize: 10Gi}}", origin, "{}", "",
		},
		"taken out of use before nginx evicts": {
			"{name: disk1, size: 10Gi, cache: {minFree: 1Gi}, health: {minFree: 1Gi}}", origin, "{}",
			"spec.disks[0].health.minFree",
		},
		"taken out of use after nginx evicts": {
			"{name: disk1, size: 10Gi, cache: {minFree: 1Gi}, health: {minFree: 1023Mi}}", origin, "{}", "",
		},
		"inactive at once": {
			"{name: disk1, size: 10Gi, cache: {inactive: 0s}}", origin, "{}", "spec.disks[0].cache.inactive",
		},
		"https without a name": {
			disk, "scheme: https, servers: [{service: {name: a, port: 443}}]", "{}", "spec.origin.tls.serverName: Required",
		},
		"https with two hosts": {
			disk, "scheme: https, servers: [{host: a.example.com}, {host: b.example.com}]", "{}",
			"spec.origin.tls.serverName: Required",
		},
		"https with a Host header": {
			disk, "scheme: https, hostHeader: 'a.example.com:8443', servers: [{service: {name: a, port: 443}}]", "{}", "",
		},
		"a bad Secret name": {
			disk, "scheme: https, tls: {caBundle: {secret: {name: A_}}}, servers: [{host: a.example.com}]", "{}",
			"spec.origin.tls.caBundle.secret.name",
		},
		"a bad key": {
			disk, "scheme: https, tls: {caBundle: {configMap: {name: a, key: 'a/b'}}}, " +
				"servers: [{host: a.example.com}]", "{}", "spec.origin.tls.caBundle.configMap.key",
		},
		"a bad label": {
			disk, origin, "{labels: {a: 'b c'}}", "spec.pod.labels",
		},
		"white space in the image": {
			disk, origin, "{image: 'a b'}", "spec.pod.image",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cacheNode, errs, err := schema.Decode([]byte(`
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge}
spec:
  disks: [` + tt.disks + `]
  origin: {` + tt.origin + `}
  pod: ` + tt.pod))
			if err != nil || len(errs) > 0 {
				t.Fatal(err, errs)
			}
			got := validation.Validate(cacheNode).ToAggregate()
			if tt.want == "" && got != nil || tt.want != "" && (got == nil || !strings.Contains(got.Error(), tt.want)) {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}
