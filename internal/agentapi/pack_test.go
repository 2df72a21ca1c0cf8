package agentapi

import (
	"bytes"
	"strings"
	"testing"
)

// TestPack checks that a text comes back as it was, and that only a long text is compressed.
func TestPack(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, packFrom - 1, packFrom, 1 << 20} {
		text := strings.Repeat("a", n)
		stored, isPacked := Pack(text)
		if isPacked != (n >= packFrom) || isPacked && len(stored) > n/10 {
			t.Errorf("%d bytes: compressed: %t, to %d bytes", n, isPacked, len(stored))
		}
		if got, err := Unpack(stored); err != nil || string(got) != text {
			t.Errorf("%d bytes come back as %d bytes, error %v", n, len(got), err)
		}
	}
}

// FuzzUnpack checks that damaged data causes an error, and no text that is too long.
func FuzzUnpack(f *testing.F) {
	whole, _ := Pack(strings.Repeat("route", packFrom))
	bomb, _ := Pack(strings.Repeat("a", maxUnpacked+1))
	for _, seed := range [][]byte{whole, whole[:len(whole)/2], bomb, []byte("{}"), {0x1f, 0x8b}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		text, err := Unpack(stored)
		if len(text) > maxUnpacked || err == nil && len(text) < len(stored) && !bytes.HasPrefix(stored, []byte{0x1f, 0x8b}) {
			t.Errorf("%d bytes become %d bytes, error %v", len(stored), len(text), err)
		}
	})
}
