package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const (
	// warnBefore is the remaining lifetime at which the status begins to warn that a certificate expires. If one sixth of
	// the certificate's lifetime (warnPart) is shorter than warnBefore, one sixth is used instead. cert-manager renews a
	// certificate when a third of the lifetime is left.
	warnBefore = 14 * 24 * time.Hour
	warnPart   = 6
)

// certificate returns the status entry for the certificate of listen.tls; nil if listen.tls is not set. If this pass of
// the operator has not read the certificate, the entry comes from the previous status.
func (f Facts) certificate() *v1alpha1.CertificateStatus {
	switch {
	case f.CacheNode.Spec.Listen.TLS == nil:
		return nil
	case f.Certificate == nil:
		return f.CacheNode.Status.ListenerCertificate
	}
	return f.Certificate
}

// CertificateOf returns the status entry for a certificate that is valid between two times.
func CertificateOf(notBefore, notAfter time.Time) *v1alpha1.CertificateStatus {
	return &v1alpha1.CertificateStatus{NotBefore: metav1.NewTime(notBefore), NotAfter: metav1.NewTime(notAfter)}
}

// expiry returns a message if the certificate of listen.tls has expired or will expire soon; "" otherwise. after is
// the time until this result changes; 0 means never.
func (f Facts) expiry() (message string, isOver bool, after time.Duration) {
	c := f.certificate()
	if c == nil {
		return "", false, 0
	}
	left := c.NotAfter.Sub(f.Now)
	warn := min(warnBefore, c.NotAfter.Sub(c.NotBefore.Time)/warnPart)
	what := "the certificate in Secret " + f.CacheNode.Spec.Listen.TLS.SecretName
	switch {
	case left <= 0:
		return what + " has expired, so clients refuse it: renew it", true, 0
	case left <= warn:
		return what + " expires soon, see status.listenerCertificate: renew it", false, left
	}
	return "", false, left - warn
}
