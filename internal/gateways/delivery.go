package gateways

import (
	"slices"

	"github.com/cachenode/cachenode-operator/internal/naming"
)

// maxSecret limits the data of a Secret with certificates. The API server accepts 1 MiB.
const maxSecret = 1000 << 10

// delivery contains the data of the Secrets through which the pods get certificates: for each Secret, the certificates
// with their keys, by ID. A certificate stays in its Secret as long as it fits, so that a change writes few Secrets.
type delivery struct {
	secrets []map[string][]byte
	// sizes are the bytes in each Secret. slots contains the position of the Secret of each certificate.
	sizes []int
	slots map[string]int
}

// newDelivery returns a delivery with those of the delivered certificates that are kept.
func newDelivery(delivered []map[string][]byte, keep func(id string) bool) *delivery {
	d := &delivery{sizes: make([]int, naming.CertificatesSlots), slots: map[string]int{}}
	for range naming.CertificatesSlots {
		d.secrets = append(d.secrets, map[string][]byte{})
	}
	for slot := range min(len(delivered), naming.CertificatesSlots) {
		for id, text := range delivered[slot] {
			if keep(id) {
				d.add(slot, id, text)
			}
		}
	}
	return d
}

// keep removes the certificates for which the function keep returns false.
func (d *delivery) keep(keep func(id string) bool) {
	for id := range d.slots {
		if !keep(id) {
			d.remove(id)
		}
	}
}

func (d *delivery) add(slot int, id string, text []byte) {
	d.remove(id)
	d.secrets[slot][id], d.slots[id] = text, slot
	d.sizes[slot] += len(text)
}

func (d *delivery) remove(id string) {
	if slot, ok := d.slots[id]; ok {
		d.sizes[slot] -= len(d.secrets[slot][id])
		delete(d.secrets[slot], id)
		delete(d.slots, id)
	}
}

// content returns a certificate with its key; nil if it is not in the Secrets.
func (d *delivery) content(id string) []byte {
	if slot, ok := d.slots[id]; ok {
		return d.secrets[slot][id]
	}
	return nil
}

// put adds or replaces a certificate. It returns false, and changes nothing, if there is not enough room.
func (d *delivery) put(id string, text []byte) bool {
	slot, has := d.slots[id]
	if !has || d.sizes[slot]-len(d.content(id))+len(text) > maxSecret {
		slot = slices.Index(d.sizes, slices.Min(d.sizes))
		if d.sizes[slot]+len(text) > maxSecret {
			return false
		}
	}
	d.add(slot, id, text)
	return true
}
