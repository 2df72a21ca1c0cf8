package pki

import (
	"bytes"
	"encoding/pem"
	"maps"
	"testing"
	"time"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const name = "edge.default.agent.cachenode.io"

func renew(t *testing.T, data map[string][]byte, name string, at time.Time) map[string][]byte {
	t.Helper()
	renewed, again, err := Renew(data, name, at)
	if err != nil {
		t.Fatal(err)
	}
	if again.Before(at) || again.After(at.Add(Lifetime)) {
		t.Errorf("look again at %s", again)
	}
	return renewed
}

func TestRenew(t *testing.T) {
	first := renew(t, nil, name, now)
	same := func(a, b map[string][]byte) bool {
		return maps.EqualFunc(a, b, bytes.Equal)
	}
	tests := map[string]struct {
		change func(map[string][]byte)
		name   string
		at     time.Time
		want   bool // true if Renew must return a new set
	}{
		"nothing changed":         {nil, name, now.Add(time.Hour), false},
		"just before the renewal": {nil, name, now.Add(Lifetime - Renewal - time.Minute), false},
		"just after the renewal":  {nil, name, now.Add(Lifetime - Renewal + time.Minute), true},
		"another name":            {nil, "other.default.agent.cachenode.io", now, true},
		"no server key":           {func(d map[string][]byte) { delete(d, naming.ServerKeyKey) }, name, now, true},
		"a damaged certificate": {
			func(d map[string][]byte) { d[naming.ClientCertificateKey] = []byte("x") }, name, now, true,
		},
		"no authority": {func(d map[string][]byte) { delete(d, naming.AuthorityKey) }, name, now, true},
		"another's authority": {func(d map[string][]byte) {
			d[naming.AuthorityKey] = renew(t, nil, name, now)[naming.AuthorityKey]
		}, name, now, true},
	}
	for title, tt := range tests {
		t.Run(title, func(t *testing.T) {
			data := maps.Clone(first)
			if tt.change != nil {
				tt.change(data)
			}
			if got := !same(data, renew(t, data, tt.name, tt.at)); got != tt.want {
				t.Errorf("a new set: %t, want %t", got, tt.want)
			}
		})
	}
}

// TestOverlap checks that both sides still trust the previous set after one rotation, but no longer trust it after two
// rotations.
func TestOverlap(t *testing.T) {
	first := renew(t, nil, name, now)
	later := now.Add(Lifetime - Renewal + time.Minute)
	second := renew(t, first, name, later)
	if n := certificates(second[naming.AuthorityKey]); n != 2 {
		t.Errorf("%d authorities after a rotation, want 2", n)
	}
	if !bytes.Equal(second[naming.OldClientKeyKey], first[naming.ClientKeyKey]) {
		t.Error("the old client's key is not kept")
	}
	third := renew(t, second, name, later.Add(Lifetime-Renewal+time.Minute))
	if n := certificates(third[naming.AuthorityKey]); n != 2 {
		t.Errorf("%d authorities after two rotations, want 2", n)
	}
}

func certificates(text []byte) int {
	n := 0
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return n
		}
		n, text = n+1, rest
	}
}
