// Package cachekey has the keys under which nginx stores responses, and the files that they are in. It is pure.
package cachekey

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/cachenode/cachenode-operator/api/v1alpha1"
)

// SliceKey is the key of a slice: number n, counted from 0, of the object with a key. No key of an object begins like
// it: only a method comes before a space, and a method has no "=".
func SliceKey(c v1alpha1.CachePolicy, key string, n int64) string {
	size := c.Slice.Size.Value()
	return fmt.Sprintf("bytes=%d-%d %s", n*size, (n+1)*size-1, key)
}

// GenerationKey is what a disk of a generation has in place of a key. With generation 0, it is the key itself. No other
// key begins like it: before its first space, a key has at most a method or a range of bytes.
func GenerationKey(generation int64, key string) string {
	if generation == 0 {
		return key
	}
	return fmt.Sprintf("generation=%d %s", generation, key)
}

// slice is the beginning of the key of a slice.
var slice = regexp.MustCompile(`^bytes=[0-9]+-[0-9]+ `)

// generation is the beginning of a key that has a generation.
var generation = regexp.MustCompile(`^generation=([0-9]{1,18}) `)

// ObjectKey is the key of the object that a stored key is about, or of which it is a slice, and the generation under
// which it is stored.
func ObjectKey(stored string) (key string, of int64) {
	if found := generation.FindStringSubmatch(stored); found != nil {
		of, _ = strconv.ParseInt(found[1], 10, 64) // it has 18 digits at most
		stored = stored[len(found[0]):]
	}
	return stored[len(slice.FindString(stored)):], of
}
