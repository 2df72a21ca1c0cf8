// Package content generates the bodies that the test origin serves. A body depends only on its path. So a client can
// check every byte without a request to the origin.
package content

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
)

// MaxSize is the maximum size of an object, in bytes.
const MaxSize = 64 << 20

// Path returns the path of an object with the given size in bytes and the given name.
func Path(size int, name string) string { return fmt.Sprintf("/objects/%d/%s", size, name) }

// Size returns the size that a path contains, in bytes. ok is false if no object has this path.
func Size(path string) (size int64, ok bool) {
	rest, ok := strings.CutPrefix(path, "/objects/")
	if !ok {
		return 0, false
	}
	number, _, ok := strings.Cut(rest, "/")
	size, err := strconv.ParseInt(number, 10, 64)
	return size, ok && err == nil && size >= 0 && size <= MaxSize
}

// Reader returns a reader for the body of the object at a path.
func Reader(path string, size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8(sha256.Sum256([]byte(path))), size)
}

// Sum returns the SHA-256 of the body of the object at a path, in hexadecimal.
func Sum(path string) (string, error) {
	size, ok := Size(path)
	if !ok {
		return "", fmt.Errorf("%s is no object's path", path)
	}
	h := sha256.New()
	if _, err := io.Copy(h, Reader(path, size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
