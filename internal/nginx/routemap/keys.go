package routemap

import (
	"strings"
)

const (
	// bucketBytes is the size of a bucket of nginx's tables (map_hash_bucket_size).
	bucketBytes = 4096
	// maxKeyBytes is the maximum length of a key that contains a path.
	maxKeyBytes = 512
	// rowBytes is the maximum size of a row in a bucket, in addition to its key (NGX_HASH_ELT_SIZE).
	rowBytes = 24
	// hsize is the number of lists into which nginx divides the keys of a map while it reads the map, and maxChain is the
	// maximum length of a list. Very many paths of usual names make lists of about ten.
	hsize, maxChain = 10007, 100
)

// isKeyPath returns true for a path that can be a part of a key.
func isKeyPath(path string) bool {
	for _, b := range []byte(path) {
		if !isPlain(b) && strings.IndexByte("/.~:@+,=", b) < 0 {
			return false
		}
	}
	return true
}

// prefixes returns the first segment of a path, the first two segments, and so on, as long as they can be a part of a
// key. It returns at most a given number of them.
func prefixes(path string, most int) (list []string) {
	for end := 0; len(list) < most && end < len(path); {
		segment, _, _ := strings.Cut(path[end+1:], "/")
		if segment == "" || !isKeyPath(segment) {
			break
		}
		end += len("/" + segment)
		list = append(list, path[:end])
	}
	return list
}

// keys are the keys of a map that contain paths. It is easy to find many paths with the same hash. The rows of all of
// them would be in one bucket of the map's table, and nginx refuses a configuration with a bucket that is too small.
// Therefore, only some of these paths become keys. Regular expressions compare the others.
type keys struct {
	texts map[string]string
	// chains is the number of keys by the remainder of their hash. While nginx reads a map, it compares a new key with all
	// keys that have the same remainder (NGX_HASH_LARGE_HSIZE).
	chains map[uint64]int
	// bytes is the size of all rows whose keys have the same hash. It is at most a quarter of a bucket, because nginx must
	// find a size of the table at which the rows of several hashes fit into each bucket.
	bytes map[uint64]int
}

func newKeys() *keys {
	return &keys{texts: map[string]string{}, chains: map[uint64]int{}, bytes: map[uint64]int{}}
}

// take returns true if a text can have the key. A key belongs to the first text that takes it.
func (k *keys) take(key, text string) bool {
	if has, ok := k.texts[key]; ok {
		return has == text
	}
	hash, size := Hash(key), len(key)+rowBytes
	if len(key) > maxKeyBytes || k.bytes[hash]+size > bucketBytes/4 || k.chains[hash%hsize] >= maxChain {
		return false
	}
	k.texts[key] = text
	k.chains[hash%hsize]++
	k.bytes[hash] += size
	return true
}

// has returns true if a text has the key.
func (k *keys) has(key, text string) bool { return k.texts[key] == text }

// drop removes a key.
func (k *keys) drop(key string) {
	hash := Hash(key)
	delete(k.texts, key)
	k.chains[hash%hsize]--
	k.bytes[hash] -= len(key) + rowBytes
}

// Hash returns nginx's hash of the key of a map (ngx_hash_key_lc).
func Hash(key string) (sum uint64) {
	for _, b := range []byte(strings.ToLower(key)) {
		sum = sum*31 + uint64(b)
	}
	return sum
}

// HostKeys returns the texts of a virtual host that nginx uses as keys of tables: the authority, the host, and each
// label of the host. nginx refuses a configuration in which too many of them have the same [Hash].
func HostKeys(a Authority) []string {
	return append(strings.Split(string(a.Host), "."), string(a.Host), a.String())
}
