package pki

import (
	"crypto/rand"
	"maps"
	"time"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// ownerKeySize is the length of the owner key in bytes, the same as the length of the hash.
const ownerKeySize = 32

// WithOwnerKey returns the data of a CacheNode's Secret, completed with the key that signs the marks on its disks. It
// keeps an existing key. If there is none, it creates a new key. running is true if the CacheNode already runs
// without a key: unsigned marks from before now are then accepted.
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
