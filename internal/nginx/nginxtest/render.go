package nginxtest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

// Render returns the configuration of a CacheNode in YAML, for a pod with two cores.
func Render(t *testing.T, yaml string) cache.Config {
	t.Helper()
	return RenderWith(t, yaml, cache.Facts{Cores: 2})
}

// RenderWith returns the configuration of a CacheNode in YAML.
func RenderWith(t *testing.T, yaml string, facts cache.Facts) cache.Config {
	t.Helper()
	cacheNode, errs, err := schema.Decode([]byte(yaml))
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	wanted, err := revision.Of(effective.CacheNode{CacheNode: cacheNode}, revision.Outside{ClusterDomain: "cluster.local"})
	must(t, err)
	config, err := cache.Render(cache.Input{Revision: wanted, Facts: facts})
	must(t, err)
	return config
}

// MemoryTier returns the lines of a spec for a memory tier. The copies in it stay there and can be served for longer
// than any test runs. fields contains additional fields, such as "minUses: 2"; it may be "".
func MemoryTier(fields string) string {
	return "  memoryTier: {enabled: true, size: 64Mi, inactive: 10h, maxExtraAge: 10h, " + fields + "}\n"
}

// waits matches the timeouts of nginx for its own servers and for pods.
var waits = regexp.MustCompile(`(proxy_(?:connect|read|send)_timeout) (?:300ms|[123]s|10s);`)

// Patient returns a configuration with which nginx waits for its own servers and for pods as long as a test waits. So a
// busy machine does not look like a pod that hangs.
func Patient(text string) string { return waits.ReplaceAllString(text, "$1 60s;") }

// Hasty does the same as Patient, but nginx waits only five seconds. It is for tests in which a server or a pod does
// not answer.
func Hasty(text string) string { return strings.ReplaceAll(Patient(text), " 60s;", " 5s;") }
