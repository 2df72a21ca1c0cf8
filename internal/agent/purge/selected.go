package purge

import (
	"hash/maphash"
	"iter"

	"github.com/cachenode/cachenode-operator/internal/agent/index"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

// selected returns the objects in an index that a union of patterns matches, each object once. If only tags select an
// object, the returned object does not include files that have none of these tags.
func selected(x *index.Index, p purge.Patterns) iter.Seq2[objects.Object, error] {
	return func(yield func(objects.Object, error) bool) {
		for _, prefix := range p.Prefixes {
			for o, err := range x.Objects(prefix) {
				if !yield(o, err) {
					return
				}
			}
		}
		for _, key := range p.Keys {
			o, err := x.Object(key, nil)
			if (o.Files > 0 || err != nil) && !yield(o, err) {
				return
			}
		}
		tagged(x, p)(yield)
	}
}

// tagged returns the objects that have one of the tags, except the objects that other patterns match.
func tagged(x *index.Index, p purge.Patterns) iter.Seq2[objects.Object, error] {
	return func(yield func(objects.Object, error) bool) {
		seed := maphash.MakeSeed()
		seen := map[uint64]struct{}{} // hashes of keys, because there can be a million keys
		for _, tag := range p.Tags {
			for key, err := range x.KeysWithTag(tag) {
				hash := maphash.String(seed, key)
				if _, is := seen[hash]; err == nil && (is || p.Names(key)) {
					continue
				}
				seen[hash] = struct{}{}
				var o objects.Object
				if err == nil {
					o, err = x.Object(key, p.Tags)
				}
				if (o.Files > 0 || err != nil) && !yield(o, err) {
					return
				}
			}
		}
	}
}
