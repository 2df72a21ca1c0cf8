package gateways

import (
	"maps"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// maxSecret limits the data of a Secret with certificates. The API server accepts 1 MiB.
const maxSecret = 1000 << 10

// delivery contains the data of the Secrets through which the pods get certificates: for each Secret, the certificates
// with their keys, by ID. A certificate stays in its Secret as long as it fits, so that a change writes few Secrets.
type delivery struct{ secrets []map[string][]byte }

// newDelivery returns a delivery with those of the delivered certificates that are kept.
func newDelivery(delivered []map[string][]byte, keep func(id string) bool) *delivery {
	d := &delivery{secrets: make([]map[string][]byte, naming.CertificatesSlots)}
	for i := range d.secrets {
		d.secrets[i] = map[string][]byte{}
		if i < len(delivered) {
			maps.Copy(d.secrets[i], delivered[i])
		}
	}
	d.keep(keep)
	return d
}

// keep removes the certificates for which the function keep returns false.
func (d *delivery) keep(keep func(id string) bool) {
	for _, s := range d.secrets {
		maps.DeleteFunc(s, func(id string, _ []byte) bool { return !keep(id) })
	}
}

// content returns a certificate with its key; nil if it is not in the Secrets.
func (d *delivery) content(id string) []byte {
	for _, s := range d.secrets {
		if text, ok := s[id]; ok {
			return text
		}
	}
	return nil
}

// put adds or replaces a certificate. It returns false, and changes nothing, if there is not enough room.
func (d *delivery) put(id string, text []byte) bool {
	sizes := make([]int, len(d.secrets))
	at := -1
	for i, s := range d.secrets {
		for key, value := range s {
			if key == id {
				at = i
			} else {
				sizes[i] += len(value)
			}
		}
	}
	to := at
	if at < 0 || sizes[at]+len(text) > maxSecret {
		to = slices.Index(sizes, slices.Min(sizes))
	}
	if sizes[to]+len(text) > maxSecret {
		return false
	}
	if at >= 0 {
		delete(d.secrets[at], id)
	}
	d.secrets[to][id] = text
	return true
}
