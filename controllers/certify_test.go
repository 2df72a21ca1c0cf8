package controllers

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
	"github.com/cachenode/cachenode-operator/internal/naming"
	"github.com/cachenode/cachenode-operator/internal/pki"
	"github.com/cachenode/cachenode-operator/test/apiserver"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestRenewal checks that certificates are renewed during 200 days in which an edit of the spec waits or is not
// accepted.
func TestRenewal(t *testing.T) {
	t.Parallel()
	restConfig := apiserver.Shared(t)
	tests := map[string]struct {
		edit   func(*v1alpha1.CacheNodeSpec)
		status status.Status
		reason string
	}{
		"the spec is not accepted": {
			edit: func(s *v1alpha1.CacheNodeSpec) {
				s.Pod.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}
			},
			status: status.FailedStatus, reason: v1alpha1.ReasonInvalidSpec,
		},
		"a key movement is held": {
			edit: func(s *v1alpha1.CacheNodeSpec) {
				s.Disks = append(s.Disks, v1alpha1.Disk{Name: "disk2", Size: resource.MustParse("1Gi")})
				s.Rollout.MaxKeyMovement = new(int32(1))
			},
			status: status.InProgressStatus, reason: v1alpha1.ReasonKeyMovement,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := startOperator(t, restConfig)
			begun := o.clock.Now()
			cacheNode := o.create(oneDisk)
			o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
			o.rollOut(cacheNode)
			o.settle(cacheNode)
			o.edit(cacheNode, tt.edit)
			o.eventually(func() string {
				if o.kstatus(cacheNode) == tt.status && hasReason(cacheNode, tt.reason) {
					return ""
				}
				return "want " + tt.reason + ": " + describe(cacheNode)
			})
			key := client.ObjectKey{Namespace: cacheNode.Namespace, Name: naming.AgentSecret(cacheNode.Name)}
			sets := map[string]bool{}
			for day := 0; day <= 200; day += 2 {
				now := begun.Add(time.Duration(day) * 24 * time.Hour)
				o.clock.FakePassiveClock.SetTime(now) // this starts no pass
				o.queues.passes.after.Store(0)
				o.look(cacheNode)
				secret := &corev1.Secret{}
				await.Until(t, func() string {
					o.ends()
					cached := &corev1.Secret{}
					must(t, o.cached.Get(context.Background(), key, cached))
					must(t, o.client.Get(context.Background(), key, secret))
					if cached.ResourceVersion != secret.ResourceVersion {
						return "the operator has not seen the Secret"
					}
					return ""
				})
				if after := time.Duration(o.queues.passes.after.Load()); after <= 0 || after > renewal {
					t.Fatalf("day %d: the next pass is after %s", day, after)
				}
				for _, name := range []string{naming.ServerCertificateKey, naming.ClientCertificateKey} {
					block, _ := pem.Decode(secret.Data[name])
					certificate, err := x509.ParseCertificate(block.Bytes)
					must(t, err)
					if left := certificate.NotAfter.Sub(now); left < pki.Renewal-time.Hour {
						t.Fatalf("day %d: %s ends in %s", day, name, left)
					}
					sets[string(secret.Data[name])] = true
				}
			}
			// One set of certificates at the start and three sets later. Each set has two certificates.
			if len(sets) != 8 {
				t.Errorf("%d certificates in 200 days, want 8", len(sets))
			}
			if o.get(cacheNode); !hasReason(cacheNode, tt.reason) {
				t.Errorf("in the end: %s", describe(cacheNode))
			}
			o.stop() // a pass that is under way would recreate the objects
			must(t, o.client.Delete(context.Background(), cacheNode))
			for _, child := range children(cacheNode) {
				must(t, client.IgnoreNotFound(o.client.Delete(context.Background(), child)))
			}
		})
	}
}

func hasReason(cacheNode *v1alpha1.CacheNode, reason string) bool {
	for _, c := range cacheNode.Status.Conditions {
		if c.Reason == reason && c.ObservedGeneration == cacheNode.Generation {
			return true
		}
	}
	return false
}

// TestOwnerKey checks that a CacheNode keeps one key for the marks on its disks, whatever happens to its certificates.
// If the claims stay after the deletion of the CacheNode, the key stays too.
func TestOwnerKey(t *testing.T) {
	t.Parallel()
	o := startOperator(t, apiserver.Shared(t))
	ctx := context.Background()
	cacheNode := o.create(oneDisk)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = cacheNode.Namespace, naming.AgentSecret(cacheNode.Name)
	o.get(secret)
	key := string(secret.Data[naming.OwnerKeyKey])
	if len(key) != 32 || secret.Data[naming.OwnerLegacyKey] != nil || len(secret.OwnerReferences) != 1 {
		t.Fatalf("a new CacheNode has a key of %d bytes, legacy %q, owners %v",
			len(key), secret.Data[naming.OwnerLegacyKey], secret.OwnerReferences)
	}

	o.edit(cacheNode, func(s *v1alpha1.CacheNodeSpec) {
		s.PersistentVolumeClaimRetentionPolicy.WhenDeleted = v1alpha1.RetainClaims
	})
	o.eventually(func() string {
		if o.get(secret); len(secret.OwnerReferences) == 0 {
			return ""
		}
		return "the Secret goes with the CacheNode though the claims stay"
	})
	must(t, o.client.Delete(ctx, cacheNode))
	o.eventually(func() string { // acts as the garbage collector, until the operator knows that the CacheNode is gone
		made := false
		for _, child := range children(cacheNode) {
			if _, ok := child.(*corev1.Secret); ok {
				continue
			}
			err := o.client.Delete(ctx, child)
			must(t, client.IgnoreNotFound(err))
			made = made || err == nil
		}
		if made || !o.queues.isIdle() {
			return "its objects are made again and again"
		}
		return o.unseen()
	})
	cacheNode = o.create(oneDisk)
	o.becomes(cacheNode, status.InProgressStatus, v1alpha1.ConditionProgressing, v1alpha1.ReasonRollingOut)
	if o.get(secret); string(secret.Data[naming.OwnerKeyKey]) != key || len(secret.OwnerReferences) != 1 {
		t.Errorf("the key is another (%t), the owners are %v",
			string(secret.Data[naming.OwnerKeyKey]) != key, secret.OwnerReferences)
	}

	// Earlier operators created no key. The unsigned marks of their agents stay valid.
	o.eventually(func() string {
		o.get(secret)
		_, err := time.Parse(time.RFC3339, string(secret.Data[naming.OwnerLegacyKey]))
		if err == nil && len(secret.Data[naming.OwnerKeyKey]) == 32 {
			return ""
		}
		if string(secret.Data[naming.OwnerKeyKey]) == key { // a pass that had begun before put it back
			before := secret.DeepCopy()
			delete(secret.Data, naming.OwnerKeyKey)
			must(t, o.client.Patch(ctx, secret, client.MergeFrom(before)))
		}
		return "one that is at work gets no key"
	})
	// Somebody with access to a pod could have left unsigned marks. For this case, the docs tell users to delete the
	// Secret.
	key = string(secret.Data[naming.OwnerKeyKey])
	must(t, o.client.Delete(ctx, secret))
	o.eventually(func() string {
		if err := o.client.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err.Error()
		}
		if string(secret.Data[naming.OwnerKeyKey]) == key { // a pass that had begun before put it back
			must(t, client.IgnoreNotFound(o.client.Delete(ctx, secret)))
			return "the Secret has the key of before"
		}
		return ""
	})
	if len(secret.Data[naming.OwnerKeyKey]) != 32 {
		t.Errorf("the other key has %d bytes", len(secret.Data[naming.OwnerKeyKey]))
	}
	if legacy := secret.Data[naming.OwnerLegacyKey]; legacy != nil {
		t.Errorf("after the Secret was deleted, marks without a signature are believed from before %s", legacy)
	}
}
