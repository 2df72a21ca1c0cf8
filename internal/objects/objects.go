// Package objects defines the queries to an agent about cached objects, and the answers. The answer is a listing of
// objects, or a description of one object. The package is pure.
//
// The package may import naming, layout, cachekey and purge. A new property of a listed object belongs here. The index
// sets its value.
package objects

import (
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/internal/purge"
)

// Path is the URL path at which an agent accepts a [Query] by POST. It answers with an [Answer].
const Path = "/v1/objects"

// MaxListed is the maximum number of objects, and of groups, that an agent lists for a disk.
const MaxListed = 10_000

// Query defines which objects to list.
type Query struct {
	// Target selects the objects.
	Target purge.Target `json:"target"`
	// Most is the maximum number of objects that are listed for each disk, from 0 to MaxListed. Sort determines which
	// objects come first.
	Most int   `json:"most,omitempty"`
	Sort Order `json:"sort,omitempty"`
	// Groups is the maximum number of groups that are listed for each disk, the largest first, from 0 to MaxListed.
	// Depth is the number of path parts in the name of a group, after the host.
	Groups int `json:"groups,omitempty"`
	Depth  int `json:"depth,omitempty"`
}

// Answer lists the cached objects of a pod.
type Answer struct {
	Stores []Store `json:"stores"`
}

// Store lists the cached objects of a disk or of the memory tier.
type Store struct {
	Name string `json:"name"`
	// Problem says why objects may be missing from the answer; "" if the answer is complete.
	Problem string `json:"problem,omitempty"`
	// Total counts all objects that the query selects.
	Total   Total    `json:"total"`
	Objects []Object `json:"objects,omitempty"`
	Groups  []Group  `json:"groups,omitempty"`
}

// Total counts objects, their files, and their bytes.
type Total struct {
	Objects int64 `json:"objects"`
	Files   int64 `json:"files"`
	Bytes   int64 `json:"bytes"`
}

// Add adds another total.
func (t *Total) Add(other Total) {
	t.Objects, t.Files, t.Bytes = t.Objects+other.Objects, t.Files+other.Files, t.Bytes+other.Bytes
}

// Group is a host, or a folder of a host, with the sum of its objects.
type Group struct {
	Name string `json:"name"`
	Total
}

// Object is an object in a cache. Its files are its slices and variants.
type Object struct {
	Key   string   `json:"key"`
	Tags  []string `json:"tags,omitempty"`
	Files int64    `json:"files"`
	// Bytes is the total size of the files.
	Bytes int64 `json:"bytes"`
	// Received is the time at which the object's newest file arrived from the origin. ValidUntil is the time until which
	// at least one of its files is fresh.
	Received   time.Time `json:"received"`
	ValidUntil time.Time `json:"validUntil"`
}

// File is a file of an object.
type File struct {
	Key                  string
	Tags                 []string
	Size                 int64
	Received, ValidUntil time.Time
}

// Add adds a file to the object to which the file belongs.
func (o *Object) Add(f File) {
	if o.Files++; o.Files == 1 {
		o.Key, o.Tags = f.Key, f.Tags
	} else if !slices.Equal(o.Tags, f.Tags) {
		o.Tags = slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.Tags, f.Tags))))
	}
	o.Bytes += f.Size
	if f.Received.After(o.Received) {
		o.Received = f.Received
	}
	if f.ValidUntil.After(o.ValidUntil) {
		o.ValidUntil = f.ValidUntil
	}
}
