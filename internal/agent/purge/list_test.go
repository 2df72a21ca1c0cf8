package purge_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
	"github.com/cachenode/cachenode-operator/test/await"
)

// TestList lists objects that nginx has stored, and compares the total with the files that a purge of the same target
// invalidates.
func TestList(t *testing.T) {
	t.Parallel()
	s := newSite(t, "  memoryTier: {enabled: false}\n")
	begun := machine.Now().Truncate(time.Second)
	all := []string{"/a/1", "/a/2?q=1", "/a/2/3", "/b/1", "/b/a"}
	s.wants("MISS", 0, all...)
	s.purge(purge.Target{Tags: []string{"none"}}, false) // after this purge, the indexes are complete
	for name, test := range map[string]struct {
		target purge.Target
		want   []string
	}{
		"a URL": {purge.Target{URLs: []string{url("/a/1")}}, []string{"/a/1"}},
		"URLs and a prefix": {
			purge.Target{URLs: []string{url("/a/1"), url("/b/1")}, Prefixes: []string{url("/a")}}, append(all[:3:3], "/b/1"),
		},
		"a tag":             {purge.Target{Tags: []string{"b"}}, []string{"/b/1", "/b/a"}},
		"tags and a prefix": {purge.Target{Tags: []string{"b", "all"}, Prefixes: []string{url("/a")}}, all},
		"a host":            {purge.Target{Hosts: []string{host}}, all},
		"nothing":           {purge.Target{Tags: []string{"c"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var keys, want []string
			for _, store := range s.list(t, objects.Query{Target: test.target, Most: 10}) {
				for _, o := range store.Objects {
					keys = append(keys, o.Key)
					isNew := !o.Received.Before(begun) && !o.Received.After(machine.Now()) &&
						o.ValidUntil.Equal(o.Received.Add(10*time.Minute))
					if o.Files != 2 || o.Bytes < 2*least || !isNew {
						t.Errorf("want two variants that have arrived since the beginning and are valid for ten minutes: %+v", o)
					}
				}
				if store.Total.Objects != int64(len(store.Objects)) || store.Total.Files != 2*store.Total.Objects {
					t.Errorf("the total is %+v of %d objects", store.Total, len(store.Objects))
				}
			}
			for _, path := range test.want {
				want = append(want, url(path))
			}
			slices.Sort(keys)
			slices.Sort(want)
			if diff := cmp.Diff(want, keys); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	var total objects.Total
	for _, store := range s.list(t, objects.Query{Target: purge.Target{Prefixes: []string{url("/a")}}}) {
		if len(store.Objects) > 0 {
			t.Errorf("%s lists objects although only the total is wanted", store.Name)
		}
		total.Add(store.Total)
	}
	if files := s.files(s.purge(purge.Target{Prefixes: []string{url("/a")}}, false)); files != total.Files || files != 6 {
		t.Errorf("%d files were purged, and %d were listed", files, total.Files)
	}
	if _, err := s.purger.List(t.Context(), objects.Query{Target: purge.Target{Prefixes: []string{"a"}}}); err == nil {
		t.Error("a prefix that is no URL is no error")
	}
}

func (s *site) list(t *testing.T, q objects.Query) []objects.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	answer, err := s.purger.List(ctx, q)
	must(t, err)
	for _, store := range answer.Stores {
		if store.Problem != "" {
			t.Errorf("%s: %s", store.Name, store.Problem)
		}
	}
	return answer.Stores
}
