package shard

// Owner returns the value that nginx selects for a cache key. This is the owner of the key's slot. Owner computes the
// value in the same way as nginx, with the same truncation of the ranges. key must be the same, byte for byte, as the
// text that split_clients hashes.
func (t Tree) Owner(key []byte) string {
	hash := murmurHash2(key)
	value := t.Root.pick(hash)
	for _, g := range t.Groups {
		if g.Name == value {
			return g.pick(hash)
		}
	}
	return value
}

// pick makes the same choice as nginx's ngx_http_split_clients_module.c. The end of a range is the sum of the truncated
// widths of all ranges up to and including this range.
func (s Split) pick(hash uint32) string {
	var end uint32
	for _, r := range s {
		end += uint32(uint64(r.Width) * 0xffffffff / Slots) //nolint:gosec // a width is at most Slots
		if r.Width == 0 || hash < end {
			return r.Value
		}
	}
	return ""
}

// murmurHash2 returns the same hash as ngx_murmur_hash2: MurmurHash2 (Appleby, 2008) with seed 0.
func murmurHash2(data []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(len(data)) //nolint:gosec // nginx truncates it too
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h = h*m ^ k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// Hash returns the 32-bit number that nginx computes from a key, and the slot of this number, from 0 to [Slots] - 1.
// nginx truncates the end of a range. So if the number is at the border of two slots, nginx may select the next slot.
func Hash(key []byte) (hash uint32, slot int) {
	hash = murmurHash2(key)
	return hash, int(uint64(hash) * Slots >> 32)
}
