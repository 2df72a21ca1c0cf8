package pki

import (
	"bytes"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

func TestWithOwnerKey(t *testing.T) {
	now := time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)
	certificates := map[string][]byte{"tls.crt": []byte("a")}
	fresh, err := WithOwnerKey(certificates, nil, false, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(fresh[naming.OwnerKeyKey]) != ownerKeySize || fresh[naming.OwnerLegacyKey] != nil || len(certificates) != 1 {
		t.Errorf("a new CacheNode has %v", fresh)
	}
	upgraded, err := WithOwnerKey(certificates, certificates, true, now)
	if err != nil {
		t.Fatal(err)
	}
	if string(upgraded[naming.OwnerLegacyKey]) != "2026-11-23T01:00:00Z" ||
		bytes.Equal(upgraded[naming.OwnerKeyKey], fresh[naming.OwnerKeyKey]) {
		t.Errorf("one that was at work before has %v", upgraded)
	}
	// The certificates change, but the key stays.
	later, err := WithOwnerKey(map[string][]byte{"tls.crt": []byte("b")}, upgraded, true, now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{naming.OwnerKeyKey, naming.OwnerLegacyKey} {
		if !bytes.Equal(later[key], upgraded[key]) {
			t.Errorf("%s is %q and was %q", key, later[key], upgraded[key])
		}
	}
	if string(later["tls.crt"]) != "b" {
		t.Errorf("the certificate is %q", later["tls.crt"])
	}
}
