package controllers

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/agentapi"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/test/apiserver"
)

func TestReferences(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	ctx := context.Background()
	cacheNode := o.create(`
apiVersion: cachenode.io/v1alpha1
kind: CacheNode
metadata: {name: edge, namespace: default}
spec:
  disks: [{name: disk1, size: 1Gi}]
  origin:
    scheme: https
    servers: [{host: origin.example.com}]
    tls: {caBundle: {secret: {name: origin-ca}}}
`)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonReferenceNotFound)
	const missing = `spec.origin.tls.caBundle.secret: ` +
		`key "ca.crt" of Secret "origin-ca" in namespace "default" does not exist`
	if text := describe(cacheNode); !strings.Contains(text, missing) {
		t.Error(text)
	}

	certificate, key := selfSigned(t)
	secret := &corev1.Secret{Data: map[string][]byte{"ca.crt": append(slices.Clone(certificate), key...)}}
	secret.Name, secret.Namespace = "origin-ca", "default"
	must(t, o.client.Create(ctx, secret))
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidReference)
	text := describe(cacheNode)
	if !strings.Contains(text, "PRIVATE KEY") || !strings.Contains(text, "must hold certificates only") {
		t.Error(text)
	}

	secret.Data["ca.crt"] = append([]byte("a comment\n"), certificate...)
	must(t, o.client.Update(ctx, secret))
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	o.rollOut(cacheNode)
	o.becomes(cacheNode, status.CurrentStatus, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	configMap := configMap(cacheNode)
	o.get(configMap)
	content, err := agentapi.ReadRevision([]byte(configMap.Data[naming.StableKey]))
	must(t, err)
	if content.CABundle != string(certificate) {
		t.Errorf("the ConfigMap holds %q, want the certificate and nothing else", content.CABundle)
	}

	old := cacheNode.Status.ConfigRevision
	secret.Data["ca.crt"], _ = selfSigned(t)
	must(t, o.client.Update(ctx, secret))
	o.eventually(func() string {
		if o.get(cacheNode); cacheNode.Status.ConfigRevision != old {
			return ""
		}
		return "a new bundle does not make a new revision"
	})

	must(t, o.client.Delete(ctx, secret))
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonReferenceNotFound)
	o.get(children(cacheNode)[0]) // the pods stay
}

// selfSigned returns a new certificate and its key in PEM.
func selfSigned(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	keyDER, err := x509.MarshalECPrivateKey(private)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// TestOperatorsSecrets checks that a spec cannot refer to the Secret with the operator's own key, so that no pod mounts
// that key.
func TestOperatorsSecrets(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	victim := o.create(oneDisk)
	o.becomes(victim, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	for name, spec := range map[string]string{
		"listener": "  listen: {tls: {secretName: edge-agent-tls}}\n",
		"bundle":   "  listen: {}\n",
	} {
		text := strings.Replace(oneDisk, "name: edge,", "name: "+name+",", 1) + spec
		if name == "bundle" {
			text = strings.Replace(text, "origin: {",
				"origin: {scheme: https, tls: {caBundle: {secret: {name: edge-agent-tls}}}, ", 1)
		}
		cacheNode := o.create(text)
		o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidReference)
		if text := describe(cacheNode); !strings.Contains(text, "is the operator's own, for its agents") {
			t.Error(text)
		}
	}

	// A CacheNode that already runs stays unchanged.
	set := children(victim)[0]
	o.get(set)
	generation := set.GetGeneration()
	o.edit(victim, func(s *v1alpha1.CacheNodeSpec) {
		s.Listen.TLS = &v1alpha1.ListenTLS{SecretName: naming.AgentSecret("edge"), Port: new(int32(8443))}
	})
	o.becomes(victim, status.InProgressStatus, v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalidReference)
	if o.get(set); set.GetGeneration() != generation {
		t.Error("the StatefulSet was changed")
	}
}

// TestMissingReferences checks that the condition Degraded names an origin Service or a StorageClass while this object
// does not exist.
func TestMissingReferences(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	ctx := context.Background()
	cacheNode := o.create(strings.NewReplacer(
		"{name: disk1, size: 1Gi}", "{name: disk1, size: 1Gi, storageClassName: fast}",
		"name: origin", "name: source",
	).Replace(edge))
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionDegraded, v1alpha1.ReasonReferenceMissing)
	for _, want := range []string{
		`spec.origin.servers[0].service: Service "source" in namespace "default" does not exist`,
		`spec.disks[0].storageClassName: StorageClass "fast" does not exist`,
	} {
		if text := describe(cacheNode); !strings.Contains(text, want) {
			t.Errorf("no condition says %q: %s", want, text)
		}
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.com/a"}
	must(t, o.client.Create(ctx, class))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "source", Namespace: "default"}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	must(t, o.client.Create(ctx, service))
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionDegraded, v1alpha1.ReasonAsExpected)
}

// TestOriginOfAHeadlessService checks that requests to an origin go to the port of the endpoints, also after that port
// changes, and that a pass at rest reads and writes nothing for it.
func TestOriginOfAHeadlessService(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Start(t))
	ctx := context.Background()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "source", Namespace: "default"}}
	service.Spec.ClusterIP, service.Spec.Ports = corev1.ClusterIPNone, []corev1.ServicePort{
		{Port: 80, TargetPort: intstr.FromInt32(3000)},
	}
	must(t, o.client.Create(ctx, service))
	cacheNode := o.create(strings.Replace(edge, "name: origin", "name: source", 1))
	sends := func(want int32) func() string {
		return func() string {
			configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: naming.ConfigMap(cacheNode.Name), Namespace: "default",
			}}
			if err := o.client.Get(ctx, client.ObjectKeyFromObject(configMap), configMap); err != nil {
				return err.Error()
			}
			of := readOffered(configMap)
			newest := cmp.Or(of.candidate, of.stable)
			if newest == nil {
				return "there is no revision"
			}
			if got := newest.Spec.Origin.Servers[0].Service.Port; got != want {
				return fmt.Sprintf("requests go to port %d, want %d", got, want)
			}
			return ""
		}
	}
	o.eventually(sends(3000)) // without endpoints, the target port
	endpoints := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "source-1", Namespace: "default"},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(4000))}},
	}
	endpoints.Labels = map[string]string{discoveryv1.LabelServiceName: "source"}
	must(t, o.client.Create(ctx, endpoints))
	o.eventually(sends(4000))
	o.writesNothing(cacheNode, 3)
}
