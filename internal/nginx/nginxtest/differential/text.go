package differential

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
)

// noise is a sequence of bytes in which no two places look the same.
var noise = sync.OnceValue(func() []byte {
	source := rand.NewChaCha8([32]byte{})
	bytes := make([]byte, 8<<20)
	_, _ = source.Read(bytes) // never fails
	return bytes
})

// text returns the body of a version: its name, and a part of noise that belongs to it.
func text(version string, size int) []byte {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(version)) // never fails
	all := noise()
	begin := int(hash.Sum32()) % (len(all) / 2)
	name := version + "\n"
	if size < len(name) {
		return all[begin : begin+size]
	}
	return append([]byte(name), all[begin:begin+size-len(name)]...)
}
