package cachekey

import (
	"crypto/md5" //nolint:gosec // nginx names its files by it
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/cachenode/cachenode-operator/internal/layout"
)

// File is the name of a cache file: the MD5 of its key, or of a variant of its key. The last hexadecimal digit and
// the two digits before it name the folders that contain the file (levels=1:2).
type File [16]byte

// Folder is the number of a leaf folder of a cache, from 0 to Folders-1. It is equal to the last three hexadecimal
// digits of the names of the files in the folder.
type Folder uint16

// Folders is the number of leaf folders of a cache.
const Folders = 16 * 256

// ParseFile parses the name of a cache file. ok is false for any other name, such as the name of a temporary file.
func ParseFile(name string) (f File, ok bool) {
	if len(name) != 2*len(f) {
		return f, false
	}
	_, err := hex.Decode(f[:], []byte(name))
	return f, err == nil && name == f.String()
}

// IsTemporary returns true for the name of a temporary file, to which nginx writes a response until the response is
// complete. Such a name consists of the final name of the file, a dot and a number of ten digits. The temporary file
// is in the same folder as the final file.
func IsTemporary(name string) bool {
	name, number, _ := strings.Cut(name, ".")
	_, isFile := ParseFile(name)
	return isFile && len(number) == 10 && strings.Trim(number, "0123456789") == ""
}

// String returns the name of the file.
func (f File) String() string { return hex.EncodeToString(f[:]) }

// Folder returns the folder that contains the file.
func (f File) Folder() Folder { return Folder(binary.BigEndian.Uint16(f[14:]) & (Folders - 1)) }

// Path returns the path of the folder, relative to the folder of the cache.
func (f Folder) Path() string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[f&15], '/', digits[f>>8&15], digits[f>>4&15]})
}

// Path returns the path of the file, relative to the folder of the cache.
func (f File) Path() string { return f.Folder().Path() + "/" + f.String() }

// OnDisk returns the path at which nginx stores the response for a key on a disk.
func OnDisk(disk, key string) string { return Path(layout.CacheDir(disk), key) }

// InMemory returns the path at which nginx stores the copy of the response for a key in memory, if there is a memory
// tier.
func InMemory(key string) string { return Path(layout.MemoryTierCache, key) }

// Path returns the path at which nginx stores the response for a key in a cache (proxy_cache_path, levels=1:2).
func Path(folder, key string) string {
	return folder + "/" + File(md5.Sum([]byte(key))).Path() //nolint:gosec // nginx names its files by it
}
