package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/layout"
)

// TestForgedMark checks caches whose marks contain this CacheNode's name. If somebody else wrote the mark, the cache is
// set aside for deletion, so that nginx never uses it. The CacheNode's own cache is kept. An unsigned mark from the
// time before the CacheNode had a key is accepted once.
func TestForgedMark(t *testing.T) {
	past, future := time.Unix(0, 0), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)
	key := []byte("0123456789abcdef0123456789abcdef")
	unsigned := fmt.Sprintf(`{"namespace":%q,"name":%q}`, owner.Namespace, owner.Name)
	signed := func(key string) string {
		o := owner
		o.Key = []byte(key)
		return fmt.Sprintf(`{"namespace":%q,"name":%q,"mac":%q}`, owner.Namespace, owner.Name, o.mac())
	}
	for name, tt := range map[string]struct {
		mark   string // "" for none
		key    []byte
		legacy time.Time
		kept   bool
		want   v1alpha1.DiskReason
	}{
		"one's own":                {mark: signed(string(key)), key: key, kept: true},
		"without a signature":      {mark: unsigned, key: key},
		"with another's signature": {mark: signed("another"), key: key},
		"with the signature of another disk": {mark: func() string {
			o := owner
			o.Key, o.Disk = key, "disk7"
			return fmt.Sprintf(`{"namespace":%q,"name":%q,"mac":%q}`, owner.Namespace, owner.Name, o.mac())
		}(), key: key},
		"with a made-up signature": {
			mark: fmt.Sprintf(`{"namespace":%q,"name":%q,"mac":"00"}`, owner.Namespace, owner.Name), key: key,
		},
		"without a mark":                 {key: key},
		"of before there was a key":      {mark: unsigned, key: key, legacy: future, kept: true},
		"forged before there was a key":  {mark: signed("another"), key: key, legacy: future},
		"of after there was a key":       {mark: unsigned, key: key, legacy: past},
		"seen by an agent without a key": {mark: unsigned, kept: true},
		"signed, and seen without a key": {mark: signed(string(key)), kept: true},
		"another CacheNode's, as it seems": {
			mark: `{"namespace":"default","name":"other","mac":"00"}`, key: key, kept: true,
			want: v1alpha1.DiskForeignCache,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := prober(t)
			p.Owner.Key, p.Owner.Legacy = tt.key, tt.legacy
			folder := filepath.Join(p.Dir, layout.OwnFolder)
			cached := filepath.Join(folder, cacheFolder, "a", "bc", "poisoned")
			must(t, os.MkdirAll(filepath.Dir(cached), 0o750))
			must(t, os.WriteFile(cached, []byte("poisoned"), 0o600))
			if tt.mark != "" {
				must(t, os.WriteFile(filepath.Join(folder, ownerFile), []byte(tt.mark), 0o600))
			}
			expect(t, p, tt.want)
			if _, err := os.Stat(cached); (err == nil) != tt.kept {
				t.Errorf("the cache is where nginx finds it: %t, want %t", err == nil, tt.kept)
			}
			if tt.want != "" {
				return
			}
			// From now on, the disk has our signed mark. Another agent must keep the cache, even if it accepts no unsigned
			// marks.
			must(t, os.MkdirAll(filepath.Dir(cached), 0o750))
			must(t, os.WriteFile(cached, []byte("own"), 0o600))
			heir := again(p)
			heir.Owner.Legacy = time.Time{}
			expect(t, heir, "")
			if _, err := os.Stat(cached); err != nil {
				t.Errorf("one's own cache is gone: %v", err)
			}
		})
	}
}
