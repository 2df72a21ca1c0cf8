package gateways

import (
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/nginx/routemap"
)

const (
	// maxEqual is the maximum number of hosts and labels of hosts of one namespace that have the same hash in nginx. This
	// practically never happens by accident.
	maxEqual = 4
	// maxEqualBytes is the maximum length of all hosts and labels of all namespaces that have the same hash. nginx puts
	// them into one bucket of a table. It refuses a configuration if the bucket is too small, and needs very long to read
	// the configuration if they nearly fill the bucket.
	maxEqualBytes = 1024
)

// hashes are the keys of nginx's tables that contain hosts, by hash.
type hashes struct {
	own map[hashed]map[string]bool
	all map[uint64]map[string]bool
}

// hashed is a hash of keys of a namespace.
type hashed struct {
	namespace string
	hash      uint64
}

func newHashes() hashes {
	return hashes{own: map[hashed]map[string]bool{}, all: map[uint64]map[string]bool{}}
}

// check returns a problem if a namespace cannot use more keys, because too many would have the same hash.
func (h hashes) check(namespace string, keys []string) *problem {
	more := newHashes()
	more.add(namespace, keys)
	for _, key := range keys {
		hash := routemap.Hash(key)
		at := hashed{namespace, hash}
		if count, _ := together(h.own[at], more.own[at]); count > maxEqual {
			return problemf(gw.RouteReasonUnsupportedValue,
				"more than %d hosts of namespace %s have the same hash in nginx, such as %q", maxEqual, namespace, key)
		}
		if count, bytes := together(h.all[hash], more.all[hash]); count > 1 && bytes > maxEqualBytes {
			return problemf(gw.RouteReasonUnsupportedValue, "too many hosts have the same hash in nginx as %q", key)
		}
	}
	return nil
}

// together returns the number of keys in one or both of two sets, and their length in bytes.
func together(first, second map[string]bool) (count, bytes int) {
	for key := range first {
		count, bytes = count+1, bytes+len(key)
	}
	for key := range second {
		if !first[key] {
			count, bytes = count+1, bytes+len(key)
		}
	}
	return count, bytes
}

// add adds keys of a namespace.
func (h hashes) add(namespace string, keys []string) {
	for _, key := range keys {
		hash := routemap.Hash(key)
		at := hashed{namespace, hash}
		if h.own[at] == nil {
			h.own[at] = map[string]bool{}
		}
		if h.all[hash] == nil {
			h.all[hash] = map[string]bool{}
		}
		h.own[at][key], h.all[hash][key] = true, true
	}
}
