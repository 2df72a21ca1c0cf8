package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/cachenode/cachenode-operator/internal/agent/reload"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/pki"
)

// pemFile returns the text of a file with a certificate and its key.
func pemFile(t *testing.T) string {
	t.Helper()
	secret, _, err := pki.Renew(nil, "a", nginxtest.Now())
	if err != nil {
		t.Fatal(err)
	}
	return string(secret[naming.ServerKeyKey]) + string(secret[naming.ServerCertificateKey])
}

// TestCertificatesOfGateways checks which certificates nginx can read while the kubelet's files change: none is missing
// once nginx may need it, a damaged one does not replace a good one, and none is left that nginx does not need.
func TestCertificatesOfGateways(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(root+layout.RunDir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &conductor{Agent: &Agent{
		Paths: Paths{Certificates: t.TempDir(), Root: root}, Nginx: &reload.Nginx{Root: root}, Log: slog.Default(),
		clock: clock.RealClock{},
	}}
	// mount replaces the files as the kubelet does: by a link to a new folder.
	mounts := 0
	mount := func(files map[string]string) {
		t.Helper()
		mounts++
		folder := filepath.Join(c.Paths.Certificates, "..folder"+string(rune('0'+mounts)))
		for name, text := range files {
			write(t, filepath.Join(folder, name), text)
			_ = os.Remove(filepath.Join(c.Paths.Certificates, name))
			if err := os.Symlink(filepath.Join("..data", name), filepath.Join(c.Paths.Certificates, name)); err != nil {
				t.Fatal(err)
			}
		}
		link := filepath.Join(c.Paths.Certificates, "..data")
		_ = os.Remove(link)
		if err := os.Symlink(filepath.Base(folder), link); err != nil {
			t.Fatal(err)
		}
	}
	// read returns the files that nginx can read, by ID.
	read := func() map[string]string {
		t.Helper()
		files, err := filepath.Glob(root + layout.GatewayCertificate("*"))
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.Base(file)] = string(text)
		}
		return texts
	}
	expect := func(what string, want map[string]string) {
		t.Helper()
		got := read()
		if got["certificate-none.pem"] == "" && len(want) > 0 {
			t.Errorf("%s: the certificate for unknown names is missing", what)
		}
		delete(got, "certificate-none.pem")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	first, second, renewed := pemFile(t), pemFile(t), pemFile(t)
	both := []string{"a", "b"}

	if err := c.copyCertificates(nil); err != nil || len(read()) > 0 {
		t.Errorf("a revision without certificates: %v, files %v", err, read())
	}
	mount(map[string]string{"a": first})
	if err := c.copyCertificates(both); err == nil {
		t.Error("certificate b is missing, and no error")
	}
	mount(map[string]string{"a": first, "b": second})
	steps := []struct {
		what    string
		mounted map[string]string
		want    map[string]string
	}{
		{"both", nil, map[string]string{"certificate-a.pem": first, "certificate-b.pem": second}},
		{
			"a renewal",
			map[string]string{"a": renewed, "b": second},
			map[string]string{"certificate-a.pem": renewed, "certificate-b.pem": second},
		},
		{
			"a damaged file",
			map[string]string{"a": first + "-----BEGIN", "b": "damaged"},
			map[string]string{"certificate-a.pem": first + "-----BEGIN", "certificate-b.pem": second},
		},
		{
			"a missing file",
			map[string]string{"a": first},
			map[string]string{"certificate-a.pem": first, "certificate-b.pem": second},
		},
	}
	for _, s := range steps {
		if s.mounted != nil {
			mount(s.mounted)
		}
		if err := c.copyCertificates(both); err != nil {
			t.Errorf("%s: %v", s.what, err)
		}
		expect(s.what, s.want)
	}
	c.removeCertificates([]string{"b"})
	expect("without a", map[string]string{"certificate-b.pem": second})
	if err := c.copyCertificates([]string{"a"}); err != nil { // back to a revision that needs it
		t.Error(err)
	}
	expect("a again", map[string]string{"certificate-a.pem": first, "certificate-b.pem": second})
}
