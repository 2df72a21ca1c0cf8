package index

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cachenode/cachenode-operator/internal/cachekey"
	"github.com/cachenode/cachenode-operator/internal/objects"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens an index that is closed at the end of the test.
func open(t *testing.T, folder string) *Index {
	t.Helper()
	blocks := NewCache(1 << 20)
	x, err := Open(folder, "this boot", blocks)
	must(t, err)
	t.Cleanup(func() {
		must(t, x.Close())
		blocks.Close()
	})
	return x
}

// names returns the names of files, sorted.
func names(t *testing.T, files iter.Seq2[cachekey.File, error]) []string {
	t.Helper()
	list := []string{}
	for f, err := range files {
		must(t, err)
		list = append(list, f.String())
	}
	slices.Sort(list)
	return list
}

func random(r *rand.Rand) (f cachekey.File) {
	for i := range f {
		f[i] = byte(r.Uint32())
	}
	return f
}

// TestIndex compares an index with a map while entries are added, replaced and removed. It also closes and reopens the
// index several times.
func TestIndex(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	folder := t.TempDir()
	x := open(t, folder)
	var files []cachekey.File
	for range 60 {
		files = append(files, random(r))
	}
	keys := []string{"http://a.com/", "http://a.com/x", "http://a.com/xy", "http://b.com/x", "\xff\xff", ""}
	tags := []string{"a", "ab", "b", "\xff"}
	model := map[cachekey.File]Entry{}
	for step := range 60 {
		var changes []Change
		for range r.IntN(8) {
			f := files[r.IntN(len(files))]
			if r.IntN(3) == 0 {
				changes = append(changes, Change{File: f})
				delete(model, f)
				continue
			}
			e := Entry{
				File: f, Key: keys[r.IntN(len(keys))], Size: r.Int64N(1e12),
				Received: time.Unix(r.Int64N(1e9), 0), ValidUntil: time.Unix(r.Int64N(1e9), 0),
				Stored: time.Unix(r.Int64N(1e9), 0), Stale: time.Duration(r.Int64N(1e6)) * time.Second,
			}
			for _, tag := range tags {
				if r.IntN(2) == 0 {
					e.Tags = append(e.Tags, tag)
				}
			}
			changes = append(changes, Change{f, &e})
			model[f] = e
		}
		must(t, x.Apply(changes))
		if step%20 == 19 {
			must(t, x.Close())
			x = open(t, folder)
		}
		where := func(is func(Entry) bool) []string {
			list := []string{}
			for f, e := range model {
				if is(e) {
					list = append(list, f.String())
				}
			}
			slices.Sort(list)
			return list
		}
		for _, text := range append(keys, tags...) {
			for kind, pair := range map[string][2][]string{
				"key":    {where(func(e Entry) bool { return e.Key == text }), names(t, x.WithKey(text))},
				"prefix": {where(func(e Entry) bool { return strings.HasPrefix(e.Key, text) }), names(t, x.WithPrefix(text))},
				"tag":    {where(func(e Entry) bool { return slices.Contains(e.Tags, text) }), names(t, x.WithTag(text))},
			} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Fatalf("step %d, %s %q (-want +got):\n%s", step, kind, text, diff)
				}
			}
		}
		sameObjects(t, x, model, append(keys, tags...))
		f := files[r.IntN(len(files))]
		want, has := model[f]
		got, ok, err := x.Get(f)
		must(t, err)
		if diff := cmp.Diff(want, got); ok != has || diff != "" {
			t.Fatalf("step %d, %s: known %t, want %t\n%s", step, f, ok, has, diff)
		}
		in := where(func(e Entry) bool { return e.File.Folder() == f.Folder() })
		if diff := cmp.Diff(in, names(t, x.InFolder(f.Folder()))); diff != "" {
			t.Fatalf("step %d, folder %s:\n%s", step, f.Folder().Path(), diff)
		}
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	x := open(t, t.TempDir())
	fake := clocktesting.NewFakeClock(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
	x.Clock = fake
	scanned := func() scan {
		scans, err := x.scans()
		must(t, err)
		return scans[cachekey.Folder(7).Path()]
	}
	at, rebooted, err := x.Checkpoint()
	must(t, err)
	if !at.IsZero() || rebooted {
		t.Errorf("a new index has everything up to %s", at)
	}
	want := fake.Now()
	must(t, x.SetCheckpoint(want))
	if at, rebooted, err = x.Checkpoint(); err != nil || !at.Equal(want) || rebooted {
		t.Errorf("%s (%v), want %s", at, err, want)
	}
	must(t, x.SetScanned(7, want))
	if got := scanned(); !got.at.Equal(want) || got.rebooted {
		t.Errorf("%+v, want %s", got, want)
	}
	must(t, x.SetCheckpoint(want.Add(time.Hour)))
	if at, _, err = x.Checkpoint(); err != nil || !at.IsZero() {
		t.Errorf("after the clock was set back: %s (%v)", at, err)
	}
	x.boot = "another boot"
	if got := scanned(); !got.at.Equal(want) || !got.rebooted {
		t.Errorf("in another boot: %+v", got)
	}
}

// TestManyFiles iterates over a tag that has more files than one page contains. During the iteration, it removes each
// file from the index.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	x := open(t, t.TempDir())
	var changes []Change
	for i := range 2*page + 7 {
		f := cachekey.File{byte(i >> 8), byte(i)}
		changes = append(changes, Change{f, &Entry{File: f, Key: fmt.Sprint(i), Tags: []string{"a"}}})
	}
	must(t, x.Apply(changes))
	seen := 0
	for f, err := range x.WithTag("a") {
		must(t, err)
		must(t, x.Apply([]Change{{File: f}}))
		seen++
	}
	if rest := names(t, x.WithTag("a")); seen != len(changes) || len(rest) != 0 {
		t.Errorf("%d of %d files were seen, and %d remain", seen, len(changes), len(rest))
	}
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	x := open(t, folder)
	must(t, x.Apply([]Change{{cachekey.File{1}, &Entry{File: cachekey.File{1}, Key: "a"}}}))
	must(t, x.Close())
	if err := x.Apply(nil); !errors.Is(err, ErrFailed) {
		t.Errorf("a change of a closed index: %v", err)
	}
	entries, err := os.ReadDir(folder)
	must(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "MANIFEST") {
			must(t, os.Truncate(filepath.Join(folder, e.Name()), 20))
		}
	}
	blocks := NewCache(1 << 20)
	defer blocks.Close()
	if x, err := Open(folder, "this boot", blocks); err == nil {
		t.Error("a damaged index is opened")
		_ = x.Close()
	}
}

func TestParseTags(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxTag+1)
	got := ParseTags([]string{"b a", " c,b,, d ", "", long, "nul\x00"})
	if diff := cmp.Diff([]string{TagsCut, "a", "b", "c", "d"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var many []string
	for i := range 2 * MaxTags {
		many = append(many, fmt.Sprint(i))
	}
	if n := len(ParseTags([]string{strings.Join(many, " ")})); n != MaxTags+1 {
		t.Errorf("%d tags are indexed, want %d and the mark that some were cut", n, MaxTags)
	}
}

// sameObjects compares the objects of an index with those of a map.
func sameObjects(t *testing.T, x *Index, model map[cachekey.File]Entry, texts []string) {
	t.Helper()
	for _, text := range texts {
		want := map[string]objects.Object{}
		tagged := map[string]int64{}
		for _, e := range model {
			if strings.HasPrefix(e.Key, text) {
				o := want[e.Key]
				o.Add(e.file())
				want[e.Key] = o
			}
			if slices.Contains(e.Tags, text) {
				tagged[e.Key]++
			}
		}
		got := map[string]objects.Object{}
		last := ""
		for o, err := range x.Objects(text) {
			must(t, err)
			if o.Key < last {
				t.Errorf("%q comes after %q", o.Key, last)
			}
			got[o.Key], last = o, o.Key
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("objects that begin with %q (-want +got):\n%s", text, diff)
		}
		n := map[string]int64{}
		for key, err := range x.KeysWithTag(text) {
			must(t, err)
			n[key]++
		}
		if diff := cmp.Diff(tagged, n); diff != "" {
			t.Fatalf("keys with the tag %q (-want +got):\n%s", text, diff)
		}
		for key, files := range tagged {
			o, err := x.Object(key, []string{text})
			must(t, err)
			if o.Files != files {
				t.Errorf("%q has %d files with the tag %q, want %d", key, o.Files, text, files)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Entry{Key: "http://a/", Tags: []string{"x", "y"}, Received: time.Unix(1e9, 0)}.encode())
	f.Add(Entry{Received: time.Unix(-1, 0), ValidUntil: time.Unix(1e9, 0), Size: 700, Stale: time.Hour}.encode())
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := decode(cachekey.File{1}, value)
		if err != nil {
			if !errors.Is(err, errDamaged) {
				t.Error(err)
			}
			return
		}
		again, err := decode(cachekey.File{1}, e.encode())
		if diff := cmp.Diff(e, again); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}
