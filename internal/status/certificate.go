package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

const (
	// warnBefore is the remaining lifetime at which a certificate counts as about to expire. If one sixth of the
	// certificate's lifetime (warnPart) is shorter than warnBefore, one sixth counts instead. cert-manager renews a
	// certificate when a third of the lifetime is left.
	warnBefore = 14 * 24 * time.Hour
	warnPart   = 6
)

// certificate returns the certificate of listen.tls; nil if there is none. If the pass has not read the certificate,
// the result is the one in the previous status.
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
