package index

import (
	"iter"
	"slices"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/objects"
)

// file returns the part of an entry that a listing of objects needs.
func (e Entry) file() objects.File {
	return objects.File{Key: e.Key, Tags: e.Tags, Size: e.Size, Received: e.Received, ValidUntil: e.ValidUntil}
}

// Objects returns the objects whose keys begin with a text, sorted by key. The index may change during the iteration:
// a file that is stored or removed meanwhile may or may not be counted.
func (x *Index) Objects(prefix string) iter.Seq2[objects.Object, error] {
	return func(yield func(objects.Object, error) bool) {
		var o objects.Object
		for e, err := range x.entries(x.WithPrefix(prefix)) {
			if err != nil {
				yield(objects.Object{}, err)
				return
			}
			if o.Files > 0 && o.Key != e.Key {
				if !yield(o, nil) {
					return
				}
				o = objects.Object{}
			}
			o.Add(e.file())
		}
		if o.Files > 0 {
			yield(o, nil)
		}
	}
}

// Object returns the object with a key. The object contains only the files that have at least one of the tags; if
// tags is nil, it contains all files. If no file matches, the object contains no files.
func (x *Index) Object(key string, tags []string) (o objects.Object, err error) {
	for e, err := range x.entries(x.WithKey(key)) {
		if err != nil {
			return objects.Object{}, err
		}
		has := func(tag string) bool { return slices.Contains(e.Tags, tag) }
		if tags == nil || slices.ContainsFunc(tags, has) {
			o.Add(e.file())
		}
	}
	return o, nil
}

// KeysWithTag returns the keys of the files that have a tag. It returns a key once for each of these files.
func (x *Index) KeysWithTag(tag string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for e, err := range x.entries(x.WithTag(tag)) {
			if !yield(e.Key, err) {
				return
			}
		}
	}
}

// entries returns the entries of files. It leaves out files that are no longer in the index, and files that nginx
// does not find.
func (x *Index) entries(files iter.Seq2[cachekey.File, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for f, err := range files {
			e, ok := Entry{}, false
			if err == nil {
				e, ok, err = x.Get(f)
			}
			if ok && err == nil && x.Serves != nil && !x.Serves(e.Generation) {
				continue
			}
			if (ok || err != nil) && (!yield(e, err) || err != nil) {
				return
			}
		}
	}
}
