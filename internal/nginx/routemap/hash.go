package routemap

import (
	"strings"

	"github.com/cachenode/cachenode-operator/internal/routes"
)

// Hash returns nginx's hash of the key of a map (ngx_hash_key_lc). It is easy to find many keys with the same hash. All
// of them are in one bucket of the map's table, and nginx refuses a configuration whose buckets are too large.
func Hash(key string) (sum uint64) {
	for _, b := range []byte(strings.ToLower(key)) {
		sum = sum*31 + uint64(b)
	}
	return sum
}

// HostKeys returns the texts of a host that nginx uses as keys of tables: the host, and each of its labels.
func HostKeys(host routes.Host) []string {
	return append(strings.Split(string(host), "."), string(host))
}

// PathKeys returns the texts of a path that nginx uses as keys of tables.
func PathKeys(path routes.Path) (keys []string) {
	for depth := range maxDepth {
		if key, ok := segment(path.Value, depth); ok {
			keys = append(keys, "/"+key)
		}
	}
	return keys
}
