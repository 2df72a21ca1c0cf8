package gateways_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gw "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/cachenode/cachenode-operator/internal/gateways"
	"github.com/cachenode/cachenode-operator/internal/naming"
)

// secret returns a Secret with a self-signed certificate for a key.
func secret(t testing.TB, private, public any) *corev1.Secret {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"shop.example.com"}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}}
}

// TestCertificate checks which Secrets have a certificate that can be used, and that only the certificate and its key
// are passed on.
func TestCertificate(t *testing.T) {
	t.Parallel()
	ecKey := func(curve elliptic.Curve) *corev1.Secret {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return secret(t, key, key.Public())
	}
	rsaKey := func(bits int) *corev1.Secret {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		return secret(t, key, key.Public())
	}
	good := ecKey(elliptic.P256())
	with := func(key, text string) *corev1.Secret {
		s := good.DeepCopy()
		s.Data[key] = []byte(text)
		return s
	}
	for name, tt := range map[string]struct {
		secret *corev1.Secret
		want   string // the problem, or the beginning of it
	}{
		"ECDSA":                   {good, ""},
		"RSA":                     {rsaKey(2048), ""},
		"text around the blocks":  {with("tls.crt", "text\n"+string(good.Data["tls.crt"])+"more\n"), ""},
		"a short RSA key":         {rsaKey(1024), "tls.key: an RSA key of 1024 bits"},
		"very many names":         {manyNames(t), "tls.crt: a certificate with 300 names"},
		"an unusual curve":        {ecKey(elliptic.P224()), "tls.key: the curve P-224"},
		"no PEM":                  {with("tls.crt", "certificate"), "tls.crt and tls.key: tls: failed to find any PEM data"},
		"no key":                  {with("tls.key", ""), "tls.crt and tls.key: "},
		"the key of another":      {with("tls.key", string(ecKey(elliptic.P256()).Data["tls.key"])), "tls.crt and tls.key: "},
		"more than a certificate": {with("tls.crt", strings.Repeat("a", 1<<16)), "tls.crt has more than"},
		"more than a key":         {with("tls.key", strings.Repeat("a", 1<<14)), "tls.crt has more than"},
		"primes of another key":   {rsaSecret(t, 20000, 2048), "tls.key: a number of the RSA key is missing, or is longer"},
		"a prime and no modulus":  {rsaSecret(t, 11000, 31), "tls.key: an RSA key of 31 bits"},
		"a prime of no modulus":   {rsaSecret(t, 1000, 2048), "tls.key: an RSA key must have two primes"},
		"a damaged chain": {with("tls.crt", string(good.Data["tls.crt"])+
			string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("damaged")}))), "tls.crt: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := gateways.NewCertificate(tt.secret)
			if (got.Problem == "") != (tt.want == "") || !strings.HasPrefix(got.Problem, tt.want) {
				t.Fatalf("the problem is %q, want %q", got.Problem, tt.want)
			}
			if tt.want != "" {
				return
			}
			if _, err := tls.X509KeyPair(got.PEM, got.PEM); err != nil {
				t.Error(err)
			}
			if bytes.Contains(got.PEM, []byte("text")) {
				t.Errorf("text around the blocks is passed on:\n%s", got.PEM)
			}
		})
	}
}

// FuzzCheckKey checks that no text of a Secret makes the check of its key end the operator, and that a certificate that
// is accepted can be read again.
func FuzzCheckKey(f *testing.F) {
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	good := secret(f, key, key.Public())
	f.Add(slices.Concat(good.Data["tls.crt"], good.Data["tls.key"]))
	f.Add([]byte("-----BEGIN RSA PRIVATE KEY-----\nMAYCAQACAQA=\n-----END RSA PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = gateways.CheckKey(text)
		c := gateways.NewCertificate(&corev1.Secret{Data: map[string][]byte{"tls.crt": text, "tls.key": text}})
		if _, err := tls.X509KeyPair(c.PEM, c.PEM); (err == nil) != (c.Problem == "") {
			t.Errorf("problem %q, read again: %v", c.Problem, err)
		}
	})
}

// manyNames returns a Secret whose certificate has 300 names.
func manyNames(t *testing.T) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	for i := range 300 {
		template.DNSNames = append(template.DNSNames, fmt.Sprintf("h%d.example.com", i))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := secret(t, key, key.Public())
	s.Data["tls.crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return s
}

// rsaSecret returns a Secret with an RSA key whose first number of three has the given bits, as does its modulus. The
// primes have nothing to do with the modulus. Reading such keys, or using them in handshakes, can take seconds.
func rsaSecret(t *testing.T, bits, modulus uint) *corev1.Secret {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s, n := secret(t, key, key.Public()), key.N
	odd := func(bits uint) *big.Int { return new(big.Int).SetBit(new(big.Int).Lsh(big.NewInt(1), bits-1), 0, 1) }
	if modulus != 2048 {
		n = odd(modulus)
	}
	type prime struct{ Prime, Exponent, Coefficient *big.Int }
	one := big.NewInt(1)
	der, err := asn1.Marshal(struct {
		Version                  int
		N                        *big.Int
		E                        int
		D, P, Q, Dp, Dq, Inverse *big.Int
		More                     []prime
	}{1, n, key.E, big.NewInt(3), odd(bits), big.NewInt(3), one, one, one, []prime{{big.NewInt(5), one, one}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Data["tls.key"] = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: der})
	return s
}

// withCertificates is a Gateway with one listener for each of n certificates.
func withCertificates(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("{name: l%[1]d, hostname: h%[1]d.example.com, port: 443, protocol: HTTPS, "+
			"tls: {certificateRefs: [{name: c%[1]d}]}}", i))
	}
	return "kind: Gateway\nmetadata: {name: main}\nspec: {listeners: [" + strings.Join(list, ", ") + "]}"
}

func isUnresolved(c metav1.Condition) bool {
	return c.Type == "ResolvedRefs" && c.Status == metav1.ConditionFalse
}

// contents returns the texts of all certificates in Secrets, by ID.
func contents(t *testing.T, secrets []map[string][]byte) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, s := range secrets {
		size := 0
		for id, text := range s {
			if _, ok := all[id]; ok {
				t.Errorf("certificate %s is in two Secrets", id)
			}
			all[id] = string(text)
			size += len(text)
		}
		if size > 1<<20 {
			t.Errorf("a Secret has %d bytes", size)
		}
	}
	return all
}

// TestDelivery checks what the Secrets contain from which the pods get certificates.
func TestDelivery(t *testing.T) {
	t.Parallel()
	id := func(i int) string { return naming.Certificate("0123456789abcdef", name("edge", fmt.Sprint("c", i))) }
	s := state(t, withCertificates(3))
	for i := range 3 {
		s.Certificates[name("edge", fmt.Sprint("c", i))] = gateways.Certificate{PEM: []byte(fmt.Sprint("text ", i))}
	}
	first := gateways.Decide(s)
	want := map[string]string{id(0): "text 0", id(1): "text 1", id(2): "text 2"}
	if diff := cmp.Diff(want, contents(t, first.Certificates)); diff != "" {
		t.Errorf("the certificates of the Gateway (-want +got):\n%s", diff)
	}
	if got := first.Table.Certificates(); len(got) != 3 {
		t.Errorf("the table has the certificates %v", got)
	}

	// One certificate is renewed, one Secret is deleted, one is damaged. The listeners keep what the pods have.
	s.Delivered = first.Certificates
	s.Certificates[name("edge", "c0")] = gateways.Certificate{PEM: []byte("renewed")}
	delete(s.Certificates, name("edge", "c1"))
	s.Certificates[name("edge", "c2")] = gateways.Certificate{Problem: "damaged"}
	second := gateways.Decide(s)
	want[id(0)] = "renewed"
	if diff := cmp.Diff(want, contents(t, second.Certificates)); diff != "" {
		t.Errorf("after a renewal (-want +got):\n%s", diff)
	}
	if got := second.Table.Certificates(); len(got) != 3 {
		t.Errorf("after a renewal, the table has the certificates %v", got)
	}
	for i, l := range second.Gateways[name("edge", "main")].Listeners {
		if got := slices.ContainsFunc(l.Conditions, isUnresolved); got != (i > 0) {
			t.Errorf("listener %s: unresolved: %t", l.Name, got)
		}
	}

	// A certificate that no Gateway names stays as long as a pod may need it.
	none := state(t, main)
	none.Delivered, none.Held = second.Certificates, map[string]bool{id(1): true}
	third := gateways.Decide(none)
	if diff := cmp.Diff(map[string]string{id(1): "text 1"}, contents(t, third.Certificates)); diff != "" {
		t.Errorf("without the listeners (-want +got):\n%s", diff)
	}
}

// TestRenewalWithoutRoom checks that a listener keeps its certificate if there is no room for a renewed one.
func TestRenewalWithoutRoom(t *testing.T) {
	t.Parallel()
	s := state(t, withCertificates(1))
	s.Certificates[name("edge", "c0")] = gateways.Certificate{PEM: []byte("first")}
	first := gateways.Decide(s)
	s.Delivered, s.Certificates[name("edge", "c0")] = first.Certificates, gateways.Certificate{PEM: make([]byte, 4<<20)}
	second := gateways.Decide(s)
	if diff := cmp.Diff(contents(t, first.Certificates), contents(t, second.Certificates)); diff != "" {
		t.Errorf("the certificates (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(first.Table, second.Table); diff != "" {
		t.Errorf("the table (-before +after):\n%s", diff)
	}
	if l := second.Gateways[name("edge", "main")].Listeners[0]; !slices.ContainsFunc(l.Conditions, isUnresolved) {
		t.Errorf("the listener does not say that its certificate is old: %v", l.Conditions)
	}
}

// TestRefusedListenersLeave checks that the Secrets contain no certificates of listeners that are refused.
func TestRefusedListenersLeave(t *testing.T) {
	t.Parallel()
	const hosts = 16
	s := state(t, withCertificates(hosts))
	for i := range hosts {
		host := ""
		for bit := range 4 {
			host += []string{"an", "c0"}[i>>bit&1] // all hosts have the same hash, and only some of them may
		}
		s.Gateways[0].Spec.Listeners[i].Hostname = new(gw.Hostname(host + ".example.com"))
		s.Certificates[name("edge", fmt.Sprint("c", i))] = gateways.Certificate{PEM: []byte("text")}
	}
	result := gateways.Decide(s)
	has := slices.Sorted(maps.Keys(contents(t, result.Certificates)))
	if diff := cmp.Diff(result.Table.Certificates(), has); diff != "" || len(has) == 0 || len(has) == hosts {
		t.Errorf("%d certificates (-served +in the Secrets):\n%s", len(has), diff)
	}
}

// TestDeliveryIsStable checks that certificates stay in their Secrets, that each is in one Secret, and that no Secret
// becomes too large, while certificates are added, renewed and removed.
func TestDeliveryIsStable(t *testing.T) {
	t.Parallel()
	s := state(t, withCertificates(60))
	for round := range 8 {
		for i := range 60 {
			if (i+round)%5 == 0 {
				delete(s.Certificates, name("edge", fmt.Sprint("c", i)))
				continue
			}
			text := bytes.Repeat([]byte{byte('a' + round%2)}, 40<<10+(i*round%7)<<10) // larger than a real one
			s.Certificates[name("edge", fmt.Sprint("c", i))] = gateways.Certificate{PEM: text}
		}
		result := gateways.Decide(s)
		all := contents(t, result.Certificates)
		for _, id := range result.Table.Certificates() {
			if all[id] == "" {
				t.Errorf("round %d: the table names certificate %s, which is in no Secret", round, id)
			}
		}
		s.Delivered = result.Certificates
		again := gateways.Decide(s)
		if !reflect.DeepEqual(result.Certificates, again.Certificates) { // cmp.Diff takes seconds for so many bytes
			t.Errorf("round %d: the next pass changes the Secrets", round)
		}
	}
}
