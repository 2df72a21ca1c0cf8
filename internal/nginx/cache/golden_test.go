package cache_test

import (
	stdcmp "cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/cert"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/effective"
	"github.com/cachenode/cachenode-operator/internal/fleet"
	"github.com/cachenode/cachenode-operator/internal/layout"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/nginx/cache"
	"github.com/cachenode/cachenode-operator/internal/nginx/nginxtest"
	"github.com/cachenode/cachenode-operator/internal/revision"
	"github.com/cachenode/cachenode-operator/internal/schema"
)

var update = flag.Bool("update", false, "write the golden files")

// certificateHash stands for the hash of the certificate that clients see.
const certificateHash = "0123456789ab"

// decode reads a CacheNode as the API server would store it.
func decode(t *testing.T, data []byte) cache.Input {
	t.Helper()
	cacheNode, errs, err := schema.Decode(data)
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	cacheNode.Namespace = stdcmp.Or(cacheNode.Namespace, "default")
	before := effective.Before{Serving: effective.WithoutTier, Routing: v1alpha1.RoutingLocal}
	outside := revision.Outside{CABundle: caBundle(cacheNode), ClusterDomain: "cluster.local"}
	n, err := revision.Of(effective.Of(cacheNode, before), outside)
	if err != nil {
		t.Fatal(err)
	}
	facts := cache.Facts{
		Scripts: true, // as with the stock image
		Cores:   effective.Cores(cacheNode.Spec.Pod.Resources.Limits.Cpu()),
	}
	if cacheNode.Spec.Listen.TLS != nil {
		facts.Certificate = certificateHash
	}
	if cacheNode.Spec.Routing.Mode == v1alpha1.RoutingSharded {
		facts.Fleet = cache.Fleet{Fleet: fleet.Of(int(*cacheNode.Spec.Replicas)), Certificate: certificateHash}
	}
	return cache.Input{Revision: n, Facts: facts}
}

// goldenFiles returns the input file for each golden file: the CacheNodes beside the golden files, and the samples for
// users.
func goldenFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for prefix, pattern := range map[string]string{
		"":        "testdata/*.yaml",
		"sample-": "../../../config/samples/cachenode*.yaml",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range found {
			files["testdata/"+prefix+strings.TrimSuffix(filepath.Base(file), ".yaml")+".conf"] = file
		}
	}
	return files
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for golden, file := range goldenFiles(t) {
		t.Run(filepath.Base(golden), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := cache.Render(decode(t, data))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(golden, []byte(got.Text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.Text); diff != "" {
				t.Errorf("%s (-want +got), \"go test ./internal/nginx/cache -update\" updates it:\n%s", golden, diff)
			}
			if again, err := cache.Render(decode(t, data)); err != nil || again.Text != got.Text {
				t.Errorf("rendering it again gives something else (error %v)", err)
			}
			checkWithNginx(t, got)
		})
	}
}

// checkWithNginx runs the real nginx -t on the configuration. nginx must not even warn.
func checkWithNginx(t *testing.T, config cache.Config) {
	t.Helper()
	n := nginxtest.New(t)
	n.Configure(config.Text, disks(config.Text)...)
	n.Mkdir(layout.MemoryTierDir)
	for _, file := range config.Files {
		if string(file.Content) == "a bundle" { // see caBundle
			authorities, err := os.ReadFile(n.Root + "/etc/ssl/certs/ca-certificates.crt")
			must(t, err)
			file.Content = authorities
		}
		must(t, os.WriteFile(n.Root+file.Path, file.Content, 0o600))
		must(t, os.Chown(n.Root+file.Path, 101, 101))
	}
	if strings.Contains(config.Text, layout.ListenerKey(certificateHash)) {
		writeCertificate(t, n)
	}
	if strings.Contains(config.Text, layout.PeerKey(certificateHash)) {
		writePeerCertificate(t, n)
	}
	output, err := n.Test()
	if lines := nginxtest.Errors(output); err != nil || len(lines) > 0 {
		t.Errorf("nginx -t: %v\n%s", err, output)
	}
}

// selfSigned returns a certificate for a name, and its key. All tests share them, because their creation takes tenths
// of a second of CPU time.
func selfSigned(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	create := sync.OnceValues(func() ([2][]byte, error) {
		certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
		return [2][]byte{certificate, key}, err
	})
	known, _ := certificatesByName.LoadOrStore(name, create)
	both, err := known.(func() ([2][]byte, error))()
	must(t, err)
	return both[0], both[1]
}

var certificatesByName sync.Map

// writeCertificate writes a certificate for the listener.
func writeCertificate(t *testing.T, n *nginxtest.Nginx) {
	t.Helper()
	certificate, key := selfSigned(t, "www.example.com")
	must(t, os.WriteFile(n.Root+layout.ListenerCertificate(certificateHash), certificate, 0o644))
	must(t, os.WriteFile(n.Root+layout.ListenerKey(certificateHash), key, 0o644))
}

// writePeerCertificate writes the certificate that all pods show to each other. In the tests, the certificate is its
// own authority.
func writePeerCertificate(t *testing.T, n *nginxtest.Nginx) {
	t.Helper()
	certificate, key := selfSigned(t, naming.PeerName("default", "edge"))
	must(t, os.WriteFile(n.Root+layout.PeerCertificate(certificateHash), certificate, 0o644))
	must(t, os.WriteFile(n.Root+layout.PeerAuthority(certificateHash), certificate, 0o644))
	must(t, os.WriteFile(n.Root+layout.PeerKey(certificateHash), key, 0o644))
}

var cacheDir = regexp.MustCompile(`proxy_cache_path /var/cache/cachenode/([a-z0-9]+)/`)

func disks(text string) []string {
	var names []string
	for _, match := range cacheDir.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// caBundle stands for the bundle that the operator reads if the spec names one.
func caBundle(cacheNode *v1alpha1.CacheNode) string {
	if tls := cacheNode.Spec.Origin.TLS; tls != nil && tls.CABundle != nil {
		return "a bundle"
	}
	return ""
}

// TestArticle checks that the golden file of the article contains the directives that the article prescribes, tuned as
// in the article's benchmark.
func TestArticle(t *testing.T) {
	text, err := os.ReadFile("testdata/article.conf")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		lines[strings.TrimSpace(line)] = true
	}
	want := []string{
		"split_clients $request_uri $shard_group {", "proxy_cache_key $request_uri;", "proxy_cache cache_$disk;",
		"aio threads=pool_$disk;", "sendfile on;", "sendfile_max_chunk 512k;", "accept_mutex off;", "access_log off;",
		"aio_write on;", "listen 8080 default_server reuseport;", "error_page 500 = @other_disk;",
		"error_page 500 = @uncached;", "server_tokens off;",
	}
	for _, disk := range []string{"disk1", "disk2", "disk3"} {
		want = append(want,
			"thread_pool pool_"+disk+" threads=16 max_queue=65536;",
			"proxy_cache_path /var/cache/cachenode/"+disk+"/cachenode/cache levels=1:2 keys_zone=cache_"+disk+":256m "+
				"max_size=1024g min_free=55g inactive=604800s use_temp_path=off;")
	}
	for _, line := range want {
		if !lines[line] {
			t.Errorf("%q is missing", line)
		}
	}
}

// TestCheck checks that Check, the operator's trial, refuses the same specs as Render. Check leaves the ranges of the
// plans out.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1alpha1.CacheNodeSpec){
		"nothing is wrong": func(*v1alpha1.CacheNodeSpec) {},
		"a host":           func(s *v1alpha1.CacheNodeSpec) { s.Hosts = []v1alpha1.Hostname{"a;b\n"} },
		"the origin":       func(s *v1alpha1.CacheNodeSpec) { s.Origin.HostHeader = new("a\nb") },
		"a disk's name":    func(s *v1alpha1.CacheNodeSpec) { s.Disks[1].Name = "disk2; }" },
	} {
		t.Run(name, func(t *testing.T) {
			in := decode(t, []byte(threeDisks))
			change(&in.Spec)
			_, want := cache.Render(in)
			got := cache.Check(in)
			if fmt.Sprint(got) != fmt.Sprint(want) || (want == nil) != (name == "nothing is wrong") {
				t.Errorf("the trial says %v, rendering %v", got, want)
			}
		})
	}
}
