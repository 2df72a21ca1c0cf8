package cel

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/config/crd"
)

// TestEverythingIsBounded checks that every list, map and string of the API has a limit.
func TestEverythingIsBounded(t *testing.T) {
	checked := 0
	var walk func(path string, s apiextensionsv1.JSONSchemaProps)
	walk = func(path string, s apiextensionsv1.JSONSchemaProps) {
		checked++
		switch {
		case (s.Type == "string" || s.XIntOrString) && len(s.Enum) == 0 && s.MaxLength == nil:
			t.Errorf("%s: no maxLength", path)
		case s.Type == "array" && s.MaxItems == nil:
			t.Errorf("%s: no maxItems", path)
		case s.AdditionalProperties != nil && s.MaxProperties == nil:
			t.Errorf("%s: no maxProperties", path)
		}
		for name, field := range s.Properties {
			walk(path+"."+name, field)
		}
		if s.Items != nil {
			walk(path+"[]", *s.Items.Schema)
		}
		if s.AdditionalProperties != nil {
			walk(path+"{}", *s.AdditionalProperties.Schema)
		}
	}
	for _, text := range [][]byte{crd.CacheNodes, crd.CachePurges, crd.CachePolicies} {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &definition); err != nil {
			t.Fatal(err)
		}
		root := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, part := range []string{"spec", "status"} {
			walk(definition.Spec.Names.Kind+"."+part, root.Properties[part])
		}
	}
	if checked < 100 {
		t.Errorf("only %d fields were checked", checked)
	}
}

// TestCharactersOfNginxSyntaxAreRefused tests every field whose text a user writes and nginx.conf contains. Each of
// these fields must refuse characters that have a meaning in nginx's syntax.
func TestCharactersOfNginxSyntaxAreRefused(t *testing.T) {
	values := map[string]string{ // the values of the fields, by path; the bad string replaces %s
		"disks":                  `[{name: %s, size: 1Gi}]`,
		"origin.hostHeader":      `%s`,
		"hosts":                  `[%s]`,
		"origin.scheme":          `%s`,
		"cache.key":              `[%s, RequestURI]`,
		"cache.methods":          `[%s]`,
		"cache.useStale":         `[%s]`,
		"cache.query":            `{drop: [%s]}`,
		"cache.query (keep)":     `{keep: [%s]}`,
		"cache.bypass":           `{cookies: [%s]}`,
		"cache.bypass (headers)": `{headers: [%s]}`,
		"cache.slice":            `{size: %s}`,
		"headers":                `{request: {set: [{name: %s, value: a}]}}`,
		"headers (remove)":       `{response: {remove: [%s]}}`,
		"listen.clientAddress":   `{source: ProxyProtocol, trustedCIDRs: [%s]}`,
		"listen.gzip":            `{types: [%s]}`,
		"listen.gzip (size)":     `{minSize: %s}`,
		"logs.format":            `%s`,
		"cache.lock":             `{age: %s}`,
		"cache.valid":            `[{status: [200], for: %s}]`,
		"origin.retries":         `{when: [%s]}`,
		"origin.timeouts":        `{read: %s}`,
		"origin.keepalive":       `{timeout: %s}`,
		"io.sendfileMaxChunk":    `%s`,
		"logs.level":             `%s`,
		"logs.access":            `%s`,
		"origin.servers":         `[{host: %s}]`,
		"origin.servers (name)":  `[{service: {name: %s, port: 80}}]`,
		"origin.servers (space)": `[{service: {name: a, namespace: %s, port: 80}}]`,
		"origin":                 `{scheme: https, servers: [{host: a.example.com}], tls: {serverName: %s}}`,
		"origin (secret)":        `{scheme: https, servers: [{host: a.example.com}], tls: {caBundle: {secret: {name: %s}}}}`,
		"origin (key)": `{scheme: https, servers: [{host: a.example.com}], ` +
			`tls: {caBundle: {configMap: {name: a, key: %s}}}}`,
		"disks (size)":     `[{name: disk1, size: %s}]`,
		"disks (zone)":     `[{name: disk1, size: 1Gi, cache: {keysZone: %s}}]`,
		"disks (inactive)": `[{name: disk1, size: 1Gi, cache: {inactive: %s}}]`,
		"disks (class)":    `[{name: disk1, size: 1Gi, storageClassName: %s}]`,
	}
	evils := []string{
		`"$x"`, `"a$x"`, `"a\"b"`, `"a'b"`, `"a\nb"`, `"a;b"`, `"a{b"`, `"a}b"`, `"a\\b"`, `"a b"`, `"a#b"`, `"a\tb"`,
	}
	for path, value := range values {
		field := firstWord(path)
		for _, evil := range evils {
			err := offline(t, object(t, "edge", fields{field: fmt.Sprintf(value, evil)}))
			if err == nil || !strings.Contains(err.Error(), "spec."+field) || strings.Contains(err.Error(), "unknown field") {
				t.Errorf("spec.%s: %s is not refused for its characters: %v", path, evil, err)
			}
		}
	}
}

func firstWord(text string) string { return strings.Fields(text)[0] }
