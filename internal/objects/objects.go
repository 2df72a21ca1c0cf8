// Package objects is how agents are asked what they have cached: a listing, or one object. It is pure.
//
// It may import naming, layout, cachekey and purge. A new property of a listed object goes here, and the index fills it
// in.
package objects

import (
	"slices"
	"time"

	"github.com/cachenode/cachenode-operator/internal/purge"
)

// Path is where an agent takes a [Query] by POST, and answers with an [Answer].
const Path = "/v1/objects"

// MaxListed is how many objects or groups of a disk an agent lists.
const MaxListed = 10_000

// Query says what is to be listed.
type Query struct {
	// Target selects the objects.
	Target purge.Target `json:"target"`
	// Most is how many objects of each disk are listed, those that come first by Sort; 0 to MaxListed.
	Most int   `json:"most,omitempty"`
	Sort Order `json:"sort,omitempty"`
	// Groups is how many groups of each disk are listed, the largest ones; 0 to MaxListed. Depth is how many parts of the
	// path the name of a group has besides the host.
	Groups int `json:"groups,omitempty"`
	Depth  int `json:"depth,omitempty"`
}

// Answer is what a pod has.
type Answer struct {
	Stores []Store `json:"stores"`
}

// Store is what a disk has, or the memory tier.
type Store struct {
	Name string `json:"name"`
	// Problem is why the answer lacks objects; "" if it has all.
	Problem string `json:"problem,omitempty"`
	// Total is about all objects that the query selects.
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

// Group is a host, or a folder of it.
type Group struct {
	Name string `json:"name"`
	Total
}

// Object is an object in a cache. Its files are its slices and variants.
type Object struct {
	Key   string   `json:"key"`
	Tags  []string `json:"tags,omitempty"`
	Files int64    `json:"files"`
	// Bytes is the size of the files together.
	Bytes int64 `json:"bytes"`
	// Received is when its newest file arrived from the origin, and ValidUntil when the last of them is no longer fresh.
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

// Add adds a file to its object.
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
