package controllers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"testing"
	"time"
)

// TestValidityOfAChain checks that a certificate counts as expired when any certificate in its chain has expired.
func TestValidityOfAChain(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	certificate := func(from, until int) []byte {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), NotBefore: begin.AddDate(0, 0, from), NotAfter: begin.AddDate(0, 0, until),
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		must(t, err)
		return der
	}
	leaf := certificate(0, 90)
	parsed, err := x509.ParseCertificate(leaf)
	must(t, err)
	got := validity(tls.Certificate{
		Certificate: [][]byte{leaf, certificate(-100, 30), []byte("no certificate"), certificate(10, 1000)}, Leaf: parsed,
	})
	if from, until := begin.AddDate(0, 0, 10), begin.AddDate(0, 0, 30); !got.NotBefore.Time.Equal(from) ||
		!got.NotAfter.Time.Equal(until) {
		t.Errorf("it is valid from %s until %s, want from %s until %s", got.NotBefore, got.NotAfter, from, until)
	}
}
