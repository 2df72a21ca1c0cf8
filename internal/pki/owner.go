package pki

import (
	"crypto/rand"
	"maps"
	"time"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// ownerKeySize is the length of the owner key in bytes. It is equal to the length of the hash.
const ownerKeySize = 32

// WithOwnerKey returns the data of a CacheNode's Secret together with the key that signs the marks on the disks. It
// keeps the key in the parameter before, or creates a new key if there is none. running is true if the CacheNode
// already runs without a key. In this case, unsigned marks from before the time now are accepted.
func WithOwnerKey(data, before map[string][]byte, running bool, now time.Time) (map[string][]byte, error) {
	data = maps.Clone(data)
	if len(before[naming.OwnerKeyKey]) == ownerKeySize {
		for _, key := range []string{naming.OwnerKeyKey, naming.OwnerLegacyKey} {
			if value, ok := before[key]; ok {
				data[key] = value
			}
		}
		return data, nil
	}
	key := make([]byte, ownerKeySize)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	data[naming.OwnerKeyKey] = key
	delete(data, naming.OwnerLegacyKey)
	if running {
		data[naming.OwnerLegacyKey] = now.UTC().AppendFormat(nil, time.RFC3339)
	}
	return data, nil
}
