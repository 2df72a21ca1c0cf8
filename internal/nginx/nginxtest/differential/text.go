package differential

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
)

// noise returns a sequence of random bytes. In practice, no part of it occurs twice.
var noise = sync.OnceValue(func() []byte {
	source := rand.NewChaCha8([32]byte{})
	bytes := make([]byte, 8<<20)
	_, _ = source.Read(bytes) // never fails
	return bytes
})

// text returns the body of a version. The body consists of the version's name and a part of noise that depends on the
// version.
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
