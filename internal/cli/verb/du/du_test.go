package du

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cachenode/cachenode-operator/internal/cli/podobjects"
	"github.com/cachenode/cachenode-operator/internal/objects"
	"github.com/cachenode/cachenode-operator/internal/purge"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	group := func(name string, bytes int64) objects.Group {
		return objects.Group{Name: name, Total: objects.Total{Objects: 1, Files: 2, Bytes: bytes}}
	}
	store := func(pod, disk string, groups ...objects.Group) podobjects.Store {
		s := podobjects.Store{Pod: pod, Store: objects.Store{Name: disk, Groups: groups}}
		for _, g := range groups {
			s.Total.Add(g.Total)
		}
		return s
	}
	groups, total := merge([]podobjects.Store{
		store("edge-0", "disk1", group("http://a/", 10), group("http://b/", 5)),
		store("edge-0", purge.MemoryStore, group("http://c/", 100)),
		store("edge-1", "disk1", group("http://b/", 6), group("http://d/", 1)),
	}, 2)
	want := []objects.Group{
		{Name: "http://b/", Total: objects.Total{Objects: 2, Files: 4, Bytes: 11}}, group("http://a/", 10),
	}
	if diff := cmp.Diff(want, groups); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(objects.Total{Objects: 4, Files: 8, Bytes: 22}, total); diff != "" {
		t.Error(diff)
	}
	if groups, _ := merge([]podobjects.Store{store("edge-0", "disk1")}, 2); groups == nil {
		t.Error("the groups of an empty cache are null for programs")
	}
}
