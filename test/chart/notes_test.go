package chart

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

// TestNotes checks that Helm's notes name the CacheNodes of a real API server that lose something: by a rollback to an
// operator without spec.gateways, or by NetworkPolicies for other ports.
func TestNotes(t *testing.T) {
	t.Parallel()
	config := apiserver.Start(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "test",
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		Clusters: map[string]*clientcmdapi.Cluster{"test": {
			Server: config.Host, CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"test": {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
		}},
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	c, ctx := apiserver.Client(t, config), context.Background()
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test"}}); err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]string{
		"edge":  "{disks: [{name: disk1, size: 1Gi}], origin: {servers: [{host: a.example.com}]}, hosts: [a.example.com]}",
		"alone": "{disks: [{name: disk1, size: 1Gi}], gateways: {}}",
		"far":   "{disks: [{name: disk1, size: 1Gi}], gateways: {ports: {from: 20000, to: 21999}}}",
	} {
		cacheNode := &v1alpha1.CacheNode{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "test"}}
		if err := yaml.UnmarshalStrict([]byte(spec), &cacheNode.Spec); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(ctx, cacheNode); err != nil {
			t.Fatal(err)
		}
	}
	const values = "crds.install=false,networkPolicy.enabled=true,networkPolicy.cacheNamespaces={test}"
	out, err := exec.Command(os.Getenv("HELM"), "install", "test", "../../charts/cachenode-operator",
		"--namespace", "test", "--dry-run=server", "--kubeconfig", kubeconfig, "--set", values).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"These CacheNodes have no spec.origin: test/alone, test/far.",
		"requests to Gateways of these CacheNodes: test/far.",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the notes lack %q:\n%s", want, out[max(0, len(out)-1000):])
		}
	}
}
